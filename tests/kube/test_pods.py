"""Worker pods: what is in them, what never is, and that a real API server lets them in."""

import os
import subprocess
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kube.restricted import breaches
from tests.work import calls_of
from tools.testcluster import ControlPlane
from weft.failure.interval import Advice
from weft.kube.names import REPORT_CA_ANNOTATION, pods_path
from weft.kube.node_rules import NodeRules
from weft.kube.pod_launch import LAUNCH, LAUNCH_PER_GPU
from weft.kube.pods import (
    CA_FILE,
    PodMaker,
    WorkerSettings,
    service_name,
)
from weft.kube.reports.server import kubeflow_path, report_path
from weft.kube.resources.training_job import TrainingJobSpec
from weft.model.errors import SpecError
from weft.model.ids import NodeId
from weft.model.placement import Seat

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
ONE = (Seat(NodeId("n0"), 8, 64.0, 476.5),)
GANG = (
    Seat(NodeId("n0"), 8),
    Seat(NodeId("n1"), 4, number=1),
    Seat(NodeId("n1"), 4, number=2),
)
SETTINGS = WorkerSettings(default_image="busybox", report_url="https://weft.weft-system:8080/")


def maker(settings: WorkerSettings = SETTINGS, **spec: Any) -> PodMaker:
    made = TrainingJobSpec.model_validate({"run": "python train.py"} | spec)
    return PodMaker(settings, namespace="team", name="vit", uid="some-uid", spec=made)


def pod(
    seats: tuple[Seat, ...] = ONE,
    number: int = 0,
    *,
    settings: WorkerSettings = SETTINGS,
    **spec: Any,
) -> dict[str, Any]:
    return maker(settings, **spec).pod(epoch=3, seats=seats, number=number, leader=7)


def policy(**settings: Any) -> dict[str, Any]:
    return maker(WorkerSettings(default_image="x", **settings)).network_policy()


def worker(made: dict[str, Any]) -> dict[str, Any]:
    (container,) = made["spec"]["containers"]
    return dict(container)


def env(made: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry.get("value", "") for entry in worker(made)["env"]}


def test_a_pod_is_named_by_job_epoch_and_seat_and_owned_by_the_job() -> None:
    about = pod(GANG, 2, queue="research")["metadata"]
    assert about == {
        "name": "vit-3-2",
        "namespace": "team",
        "labels": {
            "weft.dev/job": "vit",
            "weft.dev/epoch": "3",
            "weft.dev/rank": "2",
            "weft.dev/queue": "research",
        },
        "annotations": {
            "karpenter.sh/do-not-disrupt": "true",
            "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
            "weft.dev/leader": "7",
        },
        "ownerReferences": [
            {
                "apiVersion": "weft.dev/v1alpha1",
                "kind": "TrainingJob",
                "name": "vit",
                "uid": "some-uid",
                "controller": True,
                "blockOwnerDeletion": False,
            }
        ],
    }


def test_a_pod_is_pinned_to_its_seat() -> None:
    affinity = pod(GANG, 1)["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}


@pytest.mark.parametrize(
    ("seat", "requests", "limits"),
    [
        (
            Seat(NodeId("n"), 8, 64.0, 476.5),
            {"nvidia.com/gpu": "8", "cpu": "64", "memory": "511637979136"},
            {"nvidia.com/gpu": "8", "memory": "511637979136"},
        ),
        (Seat(NodeId("n"), 1), {"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "1"}),
        (Seat(NodeId("n"), 0, 0.3, 0.0), {"cpu": "300m"}, {}),
        (
            Seat(NodeId("n"), 0, 7.9999, 0.5),
            {"cpu": "7999m", "memory": "536870912"},
            {"memory": "536870912"},
        ),
    ],
)
def test_a_pod_asks_for_what_its_seat_holds(
    seat: Seat, requests: dict[str, str], limits: dict[str, str]
) -> None:
    assert worker(pod((seat,)))["resources"] == {"requests": requests, "limits": limits}


def test_a_lone_worker_is_its_own_master() -> None:
    made = pod()
    assert env(made)["MASTER_ADDR"] == env(made)["PET_MASTER_ADDR"] == "127.0.0.1"
    assert "hostname" not in made["spec"]


def test_a_gang_meets_at_its_first_worker() -> None:
    made = maker().pods(epoch=3, seats=GANG, leader=7)
    assert [one["spec"]["hostname"] for one in made] == ["vit-3-0", "vit-3-1", "vit-3-2"]
    assert {one["spec"]["subdomain"] for one in made} == {"weft-vit"}
    assert {env(one)["MASTER_ADDR"] for one in made} == {"vit-3-0.weft-vit.team.svc"}
    names = ("WEFT_RANK", "NODE_RANK", "PET_NODE_RANK", "PET_NPROC_PER_NODE")
    assert [[env(one)[name] for name in names] for one in made] == [
        ["0", "0", "0", "8"],
        ["1", "1", "1", "4"],
        ["2", "2", "2", "4"],
    ]
    shared = {"WEFT_SEATS": "3", "NNODES": "3", "PET_NNODES": "3", "PET_RDZV_ID": "vit-3"}
    assert all(shared.items() <= env(one).items() for one in made)


def test_the_maker_does_not_mix_up_placements() -> None:
    one_maker = maker()
    first = one_maker.pod(epoch=3, seats=GANG, number=0, leader=7)
    second = one_maker.pod(epoch=4, seats=GANG, number=0, leader=8)
    third = one_maker.pod(epoch=4, seats=GANG[:2], number=0, leader=8)
    assert [env(one)["WEFT_EPOCH"] for one in (first, second, third)] == ["3", "4", "4"]
    assert [env(one)["WEFT_SEATS"] for one in (first, second, third)] == ["3", "3", "2"]


def test_a_pod_tells_the_agent_its_seat_and_the_jobs_range() -> None:
    made = maker(resources={"gpus": "2..16"}, grace="2m").pods(epoch=3, seats=GANG, leader=7)
    names = ("WEFT_SEAT", "WEFT_SEAT_GPUS", "WEFT_HEAD")
    assert [[env(one).get(name) for name in names] for one in made] == [
        ["0", "8", "1"],
        ["1", "4", None],
        ["2", "4", None],
    ]
    shared = {
        "WEFT_MIN_GPUS": "2",
        "WEFT_MAX_GPUS": "16",
        "WEFT_WIDTH": "16",
        "WEFT_GRACE_SECONDS": "120",
    }
    assert all(shared.items() <= env(one).items() for one in made)
    address = {"fieldRef": {"fieldPath": "status.podIP"}}
    assert {"name": "WEFT_POD_IP", "valueFrom": address} in worker(made[0])["env"]


def test_a_job_without_gpus_has_one_worker() -> None:
    found = env(pod((Seat(NodeId("n"), 0, 1.0),), resources={"gpus": 0, "cpus": 1}))
    names = ("WEFT_SEAT_GPUS", "WEFT_WIDTH", "WEFT_MIN_GPUS", "WEFT_MAX_GPUS")
    assert [found[name] for name in names] == ["1", "1", "1", "1"]


def test_a_pod_that_joins_later_is_one_of_the_gang() -> None:
    grown = (
        Seat(NodeId("n0"), 1),
        Seat(NodeId("n0"), 1, number=2),
        Seat(NodeId("n1"), 1, number=5),
    )
    alone, joined = maker(resources={"gpus": "1..4"}), maker(resources={"gpus": "1..4"})
    head = alone.pod(epoch=3, seats=grown[:1], number=0, leader=7)
    late = joined.pod(epoch=3, seats=grown, number=5, leader=9)
    assert [one["metadata"]["name"] for one in (head, late)] == ["vit-3-0", "vit-3-5"]
    assert [one["spec"]["subdomain"] for one in (head, late)] == ["weft-vit", "weft-vit"]
    assert late["metadata"]["labels"]["weft.dev/rank"] == env(late)["WEFT_SEAT"] == "5"
    # Ranks are for torch, which knows no gaps.
    assert (env(late)["WEFT_RANK"], env(late)["NNODES"]) == ("2", "3")
    assert env(late)["MASTER_ADDR"].startswith("vit-3-0.")


def test_the_service_gives_names_to_workers_that_are_not_ready() -> None:
    service = maker().service()
    assert service["metadata"]["name"] == service_name("vit") == "weft-vit"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"] == {"weft.dev/job": "vit"}


def test_reports_and_checkpoints() -> None:
    found = env(pod(checkpoint={"path": "/ckpt/a", "every": "5m"}))
    assert found["WEFT_JOB"] == "team/vit"
    assert found["WEFT_REPORT_URL"] == "https://weft.weft-system:8080" + report_path("team", "vit")
    url = "https://weft.weft-system:8080" + kubeflow_path("team", "vit")
    assert found["KUBEFLOW_TRAINER_SERVER_URL"] == url
    token = found["WEFT_TOKEN_FILE"]
    assert found["KUBEFLOW_TRAINER_SERVER_TOKEN"] == token == "/var/run/weft/token"
    assert found["WEFT_CHECKPOINT_PATH"] == "/ckpt/a"
    assert found["WEFT_CHECKPOINT_EVERY_SECONDS"] == "300"
    assert "KUBEFLOW_TRAINER_SERVER_CA_CERT" not in found


def test_a_folder_for_checkpoints_is_no_template() -> None:
    """Kubernetes would put a variable in the place of `$(RANK)`."""
    assert env(pod(checkpoint={"path": "/my runs/$(RANK)"}))["WEFT_CHECKPOINT_PATH"] == (
        "/my runs/$$(RANK)"
    )


def test_how_often_to_save_is_advised_where_the_job_does_not_say() -> None:
    advice = Advice(1e8)

    def told(**spec: Any) -> dict[str, str]:
        pod = maker(**spec).pod(epoch=1, seats=ONE, number=0, leader=1, advice=advice)
        return {one["name"]: one.get("value", "") for one in pod["spec"]["containers"][0]["env"]}

    asks = told(checkpoint={"path": "/ckpt"})
    assert asks["WEFT_SAVE_ADVICE"] == "100000000:1800"
    assert asks["WEFT_CHECKPOINT_EVERY_SECONDS"] == "1800", "for scripts that save by themselves"
    assert "WEFT_SAVE_ADVICE" not in told(checkpoint={"path": "/ckpt", "every": "10m"})
    assert "WEFT_SAVE_ADVICE" not in told()


def test_an_authority_of_the_report_server() -> None:
    settings = WorkerSettings(default_image="x", report_url="https://w", report_ca_path="/ca.crt")
    found = env(pod(settings=settings))
    assert found["KUBEFLOW_TRAINER_SERVER_CA_CERT"] == found["WEFT_REPORT_CA_FILE"] == "/ca.crt"
    quiet = env(pod(settings=WorkerSettings(default_image="x")))
    assert not any(name.startswith(("KUBEFLOW", "WEFT_REPORT")) for name in quiet)


def test_an_authority_that_comes_with_the_pod() -> None:
    text = "-----BEGIN CERTIFICATE-----"
    settings = WorkerSettings(default_image="x", report_url="https://w", report_ca=text)
    made = pod(settings=settings)
    found = env(made)
    assert found["KUBEFLOW_TRAINER_SERVER_CA_CERT"] == found["WEFT_REPORT_CA_FILE"] == CA_FILE
    assert made["metadata"]["annotations"][REPORT_CA_ANNOTATION] == text
    (token,) = [it for it in made["spec"]["volumes"] if it["name"] == "weft-token"]
    (item,) = token["projected"]["sources"][1]["downwardAPI"]["items"]
    assert item["fieldRef"]["fieldPath"] == f"metadata.annotations['{REPORT_CA_ANNOTATION}']"


def test_an_image_that_holds_the_authority_is_given_none() -> None:
    settings = WorkerSettings(
        default_image="x", report_url="https://w", report_ca="PEM", report_ca_path="/ca.crt"
    )
    made = pod(settings=settings)
    assert env(made)["WEFT_REPORT_CA_FILE"] == "/ca.crt"
    assert REPORT_CA_ANNOTATION not in made["metadata"]["annotations"]


def test_workers_are_reached_by_their_own_job_alone() -> None:
    own = {"podSelector": {"matchLabels": {"weft.dev/job": "vit"}}}
    assert policy()["spec"] == {
        **own,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [own]}],
    }
    board = {"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}
    reached = policy(reached_from=(("team", "monitoring"),))
    assert reached["spec"]["ingress"] == [{"from": [own, board]}]


def test_a_worker_without_gpus_is_shown_none() -> None:
    assert env(pod((Seat(NodeId("n"), 0, 1.0),)))["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "NVIDIA_VISIBLE_DEVICES" not in env(pod())


def test_claims_are_listed_once_and_mounted_where_asked() -> None:
    made = pod(
        volumes=[
            {"claim": "data", "path": "/data", "read_only": True},
            {"claim": "ckpt", "path": "/ckpt"},
            {"claim": "data", "path": "/cache"},
        ]
    )
    claims = [one for one in made["spec"]["volumes"] if "persistentVolumeClaim" in one]
    assert claims == [
        {"name": "claim-0", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "claim-1", "persistentVolumeClaim": {"claimName": "ckpt"}},
    ]
    assert worker(made)["volumeMounts"][2:] == [
        {"name": "claim-0", "mountPath": "/data", "readOnly": True},
        {"name": "claim-1", "mountPath": "/ckpt", "readOnly": False},
        {"name": "claim-0", "mountPath": "/cache", "readOnly": False},
    ]


def test_an_image_has_to_come_from_somewhere() -> None:
    assert worker(pod(image="mine:1"))["image"] == "mine:1"
    assert worker(pod())["image"] == "busybox"
    with pytest.raises(SpecError, match="names no image"):
        pod(settings=WorkerSettings())


def test_the_operators_own_settings() -> None:
    settings = WorkerSettings(
        default_image="x", scheduler_name="mine", run_as_user=None, image_pull_policy="Never"
    )
    made = pod(settings=settings, grace="2m", workdir="/w")
    assert made["spec"]["schedulerName"] == "mine"
    assert made["spec"]["terminationGracePeriodSeconds"] == 120
    assert made["spec"]["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert worker(made)["imagePullPolicy"] == "Never"
    assert worker(made)["workingDir"] == "/w"
    assert pod()["spec"]["securityContext"]["runAsUser"] == 1000


def test_every_shape_fits_the_profile() -> None:
    volumes = [{"claim": "a", "path": "/a"}]
    for made in (pod(), pod(GANG, 2, volumes=volumes), pod((Seat(NodeId("n"), 0, 1.0),))):
        assert breaches(made) == []


def test_the_checker_sees_what_it_should() -> None:
    changes: list[dict[str, Any]] = [
        {"hostNetwork": True},
        {"nodeName": "n0"},
        {"tolerations": []},
        {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]},
        {"automountServiceAccountToken": True},
        {"securityContext": {}},
    ]
    for change in changes:
        made = pod()
        assert breaches(made | {"spec": made["spec"] | change})
    changes = [{"securityContext": {}}, {"ports": [{"hostPort": 1}]}, {"env": [{"name": "A"}]}]
    for change in changes:
        made = pod()
        changed = {"containers": [worker(made) | change]}
        assert breaches(made | {"spec": made["spec"] | changed})


# ------------------------------------------------------------------ what a job names for its pods


def test_secrets_and_config_maps_are_named_and_never_read() -> None:
    sources = [
        {"name": "HF_TOKEN", "secret": "hub", "key": "token"},
        {"name": "LR", "config_map": "sft", "key": "lr"},
    ]
    folders = [
        {"secret": "hub", "path": "/etc/hub"},
        {"config_map": "hub", "path": "/etc/sft"},
        {"claim": "hub", "path": "/data"},
    ]
    made = pod(env_from=sources, volumes=folders, service_account="trainer")
    assert breaches(made) == []
    entries = {entry["name"]: entry.get("valueFrom") for entry in worker(made)["env"]}
    assert entries["HF_TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "token"}}
    assert entries["LR"] == {"configMapKeyRef": {"name": "sft", "key": "lr"}}
    assert made["spec"]["volumes"][2:] == [
        {"name": "claim-0", "secret": {"secretName": "hub"}},
        {"name": "claim-1", "configMap": {"name": "hub"}},
        {"name": "claim-2", "persistentVolumeClaim": {"claimName": "hub"}},
    ]
    assert [mount["readOnly"] for mount in worker(made)["volumeMounts"][2:]] == [True, True, False]
    assert made["spec"]["serviceAccountName"] == "trainer"
    assert made["spec"]["automountServiceAccountToken"] is False


def test_devices_go_with_the_gpus_of_a_seat_and_are_whole() -> None:
    asked = {"gpus": 4, "devices_per_gpu": {"rdma/hca": 1, "vpc.amazonaws.com/efa": 0.5}}
    made = maker(resources=asked)
    seats = (Seat(NodeId("a"), 3), Seat(NodeId("b"), 1, number=1))
    wide, narrow = (worker(one)["resources"] for one in made.pods(epoch=1, seats=seats, leader=1))
    assert wide["limits"] == {"nvidia.com/gpu": "3", "rdma/hca": "3", "vpc.amazonaws.com/efa": "1"}
    assert narrow["requests"] == {"nvidia.com/gpu": "1", "rdma/hca": "1"}


def test_gpus_are_called_as_the_node_calls_them() -> None:
    seat = Seat(NodeId("a"), 2)
    made = maker(resources={"gpus": 2}).pod(
        epoch=1, seats=(seat,), number=0, leader=1, gpu_resource="nvidia.com/mig-1g.5gb"
    )
    assert worker(made)["resources"]["limits"] == {"nvidia.com/mig-1g.5gb": "2"}


def test_pods_stay_on_the_nodes_that_were_chosen_and_bear_what_was_allowed() -> None:
    rules = NodeRules(selector=(("team", "ml"),), tolerations=("dedicated",))
    made = maker(
        replace(SETTINGS, nodes=rules),
        tolerations=["spot"],
        annotations={"k8s.v1.cni.cncf.io/networks": "rdma"},
        priority_class="training",
    ).pod(epoch=1, seats=(Seat(NodeId("a"), 1),), number=0, leader=1)
    assert breaches(made) == []
    assert made["spec"]["nodeSelector"] == {"team": "ml"}
    assert made["spec"]["priorityClassName"] == "training"
    assert made["spec"]["tolerations"][2:] == [
        {"key": "dedicated", "operator": "Exists"},
        {"key": "spot", "operator": "Exists"},
    ]
    assert made["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] == "rdma"


# ------------------------------------------------------------------ what Kubernetes makes of text


def expanded(text: str, known: dict[str, str]) -> str:
    """Kubernetes' own reading of a command or a value: `$$` is `$`, and `$(NAME)` is looked up."""
    found, place = "", 0
    while place < len(text):
        if text[place] != "$" or place + 1 == len(text):
            found, place = found + text[place], place + 1
        elif text[place + 1] == "$":
            found, place = found + "$", place + 2
        elif text[place + 1] == "(" and ")" in text[place:]:
            end = text.index(")", place)
            name = text[place + 2 : end]
            found, place = found + known.get(name, f"$({name})"), end + 1
        else:
            found, place = found + text[place : place + 2], place + 2
    return found


@given(st.text("$()AB $\n", max_size=30), st.text("$()AB", max_size=20))
def test_text_reaches_the_worker_as_it_was_written(script: str, value: str) -> None:
    made = pod(run="x" + script, env={"A": value})
    known = env(made)
    assert expanded(worker(made)["command"][2], known) == LAUNCH
    assert expanded(worker(made)["command"][4], known) == "x" + script
    assert expanded(known["A"], known) == value


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"resources": {"gpus": 8}}, "1"),
        ({"resources": {"gpus": 8}, "nproc_per_node": "gpu"}, "gpu"),
        ({"resources": {"gpus": "4..8"}}, "gpu"),
    ],
)
def test_the_agent_is_told_how_many_processes_to_start(spec: dict[str, Any], told: str) -> None:
    assert env(pod(**spec))["WEFT_NPROC_PER_NODE"] == told


def test_a_process_for_each_gpu_needs_the_agent() -> None:
    """A shell would start one, which would leave the other GPUs idle without a word."""
    begun = worker(pod(resources={"gpus": 8}, nproc_per_node="gpu"))["command"]
    assert expanded(begun[2], {}) == LAUNCH_PER_GPU
    bare = {"PATH": "/usr/bin:/bin"}
    ended = subprocess.run(begun, env=bare, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (os.EX_CONFIG, "")
    assert ended.stderr.startswith("nproc_per_node: gpu needs weft-agent, and the image has none.")


# ------------------------------------------------------------------------------------ for real


def test_the_api_server_lets_every_shape_into_a_restricted_namespace(
    cluster: ControlPlane,
) -> None:
    cluster.add_namespace("team", RESTRICTED)
    volumes = [{"claim": "data.set", "path": "/data"}, {"claim": "data.set", "path": "/.cache"}]
    shapes = [
        *maker(volumes=volumes, workdir="/w", env={"A": "$(B) ä"}).pods(
            epoch=1, seats=GANG, leader=1
        ),
        maker().pod(epoch=2, seats=(Seat(NodeId("n0"), 0, 0.1, 0.001),), number=0, leader=1),
        pod(settings=WorkerSettings(default_image="x", run_as_user=None)),
    ]
    for made in shapes:
        answer = cluster.api.send("POST", pods_path("team"), made)
        assert answer.status == 201, answer.message
        assert within(made["spec"], answer.body["spec"])
    service = cluster.api.send("POST", "/api/v1/namespaces/team/services", maker().service())
    assert service.status == 201, service.message


def within(asked: object, stored: object) -> bool:
    """Whether the API server kept all that was asked for; it adds its own defaults."""
    if isinstance(asked, dict) and isinstance(stored, dict):
        return all(within(asked[name], stored.get(name, False)) for name in asked)
    if isinstance(asked, list) and isinstance(stored, list):
        return all(map(within, asked, stored))
    return asked == stored


def test_the_longest_names_are_let_in(cluster: ControlPlane) -> None:
    cluster.add_namespace("n" * 63, RESTRICTED)
    spec = TrainingJobSpec.model_validate({"run": "x", "queue": "q" * 63, "image": "x"})
    name = "7" + "a" * 49
    longest = PodMaker(SETTINGS, namespace="n" * 63, name=name, uid="u", spec=spec)
    for made in longest.pods(epoch=999_999, seats=GANG, leader=2**31):
        answer = cluster.api.send("POST", pods_path("n" * 63), made)
        assert answer.status == 201, answer.message
    path = f"/api/v1/namespaces/{'n' * 63}/services"
    assert cluster.api.send("POST", path, longest.service()).status == 201
    path = f"/apis/networking.k8s.io/v1/namespaces/{'n' * 63}/networkpolicies"
    assert cluster.api.send("POST", path, longest.network_policy()).status == 201


def test_a_pod_of_a_large_gang_takes_as_many_calls_as_of_a_small_one() -> None:
    one_maker = maker(env={f"V{number}": "x" for number in range(10)})

    def calls_per_pod(width: int) -> int:
        seats = tuple(Seat(NodeId(f"n{n}"), 8, 64.0, 400.0, number=n) for n in range(width))
        one_maker.pod(epoch=1, seats=seats, number=0, leader=1)
        return calls_of(lambda: one_maker.pod(epoch=1, seats=seats, number=width - 1, leader=1))

    assert calls_per_pod(64) <= 2 * calls_per_pod(8) < 100
