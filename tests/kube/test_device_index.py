"""The index finds for each node what a look at everything would find."""

from hypothesis import given
from hypothesis import strategies as st

from weft.kube.device_index import DeviceIndex
from weft.kube.devices import ObservedClaim, ObservedSlice, devices_on

NODES, POOLS, DRIVERS = ("a", "b", "c"), ("p", "q"), ("gpu", "nic")


def one_of(kind: str, *names: str) -> st.SearchStrategy[str]:
    return st.sampled_from(names).map(lambda name: f"{kind}{name}")


slices = st.builds(
    ObservedSlice,
    uid=one_of("s", "1", "2", "3"),
    version=st.just(1),
    node=st.sampled_from(NODES),
    driver=st.sampled_from(DRIVERS),
    pool=st.sampled_from(POOLS),
    devices=st.integers(0, 3),
    memory_gib=st.none(),
)
devices = st.tuples(st.sampled_from(DRIVERS), st.sampled_from(POOLS), one_of("gpu-", "0", "1"))
claims = st.builds(
    ObservedClaim,
    uid=one_of("c", "1", "2"),
    version=st.just(1),
    devices=st.frozensets(devices, max_size=4),
)
ends = st.sampled_from(["s1", "s2", "s3", "c1", "c2"])


@given(st.lists(st.one_of(slices, claims, ends), max_size=30))
def test_it_agrees_with_a_look_at_everything(
    changes: list[ObservedSlice | ObservedClaim | str],
) -> None:
    index = DeviceIndex()
    published: dict[str, ObservedSlice] = {}
    held: dict[str, ObservedClaim] = {}
    for change in changes:
        if isinstance(change, ObservedSlice):
            index.slice_changed(published.get(change.uid), change)
            published[change.uid] = change
        elif isinstance(change, ObservedClaim):
            index.claim_changed(held.get(change.uid), change)
            held[change.uid] = change
        elif change in published:
            index.slice_changed(published.pop(change), None)
        elif change in held:
            index.claim_changed(held.pop(change), None)
    assert set(index.nodes) == {one.node for one in published.values()}
    for node in NODES:
        looked = devices_on(node, "gpu", published.values(), held.values())
        assert devices_on(node, "gpu", index.slices_on(node), index.claims_on(node)) == looked
    for claim in held.values():
        pools = claim.pools()
        nodes = {one.node for one in published.values() if (one.driver, one.pool) in pools}
        assert set(index.nodes_of(claim)) == nodes
