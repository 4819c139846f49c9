"""`weft operator`: stands for election, leads when elected, and hears what workers report.

Losing the lease ends a term, not the process: the replica stands again. What nobody expected ends
a term too; the next one begins after a pause that grows, so that a defect cannot burn a CPU or an
API server.
"""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random

from weft.brain.brain import Settings
from weft.brain.event import JobReported, Phase, PlansOffered
from weft.failure.rulebook import shipped
from weft.kube.client.api import Api
from weft.kube.client.backoff import Backoff
from weft.kube.client.lease import Leadership
from weft.kube.health_map import HealthMap
from weft.kube.logs import Log, write_logs
from weft.kube.metrics import Metrics
from weft.kube.names import HEAD_SEAT
from weft.kube.node_rules import NodeRules
from weft.kube.operator.decider import OpenJournal
from weft.kube.operator.executor.scale_up import ScaleUp
from weft.kube.operator.faults import Faults
from weft.kube.operator.leader_endpoint import publish_endpoint
from weft.kube.operator.observation.informers import Informers
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.options import OperatorOptions
from weft.kube.operator.reconcile.permissions import Permissions
from weft.kube.operator.reconcile.replanning import offered
from weft.kube.operator.reconcile.step import Rules
from weft.kube.operator.status.patches import title
from weft.kube.operator.term import Term, TermSettings
from weft.kube.pods import WorkerSettings
from weft.kube.reports.authority import certificates_in
from weft.kube.reports.headship import FIRST, Headship
from weft.kube.reports.listener import Address, TlsFiles
from weft.kube.reports.meeting import Meetings
from weft.kube.reports.payload import Report
from weft.kube.reports.refusal import Refusal
from weft.kube.reports.server import (
    Outlook,
    Probes,
    ReportServer,
    WorkerIdentity,
)
from weft.kube.reports.tokens import Tokens
from weft.model.capability import Capability
from weft.model.errors import BadEvent, NotLeading
from weft.model.ids import JobId
from weft.model.state import State
from weft.notify.outbox import Outbox
from weft.spec.failure_rules import read_rules, read_services
from weft.spec.notify_file import read_outbox

FORGET_SECONDS = 5.0
MINUTE_SECONDS = 60.0
DAY_SECONDS = 86_400.0
STUCK_SECONDS = 60.0
"""A replica in which something has been due for so long is to be restarted."""

HOLDING = frozenset(title(state) for state in State if state.holds_seats)

log = Log("operator")


def run(options: OperatorOptions, open_journal: OpenJournal) -> None:
    """Until SIGTERM or SIGINT."""
    write_logs(options.log_level)
    asyncio.run(_serve_until_signalled(Operator(options, open_journal)))


class Operator:
    """One replica."""

    def __init__(self, options: OperatorOptions, open_journal: OpenJournal) -> None:
        self._options = options
        self._open_journal = open_journal
        self._metrics = Metrics()
        self._settings = settings_of(options)
        self._term: Term | None = None
        self._informers: Informers | None = None
        self._faults = Faults()
        self._meetings = Meetings()
        self._stop = asyncio.Event()

    async def serve(self) -> None:
        options = self._options
        leadership = Leadership(
            lambda: Api.connect(kubeconfig=options.kubeconfig),
            namespace=options.namespace,
            name=options.lease,
            identity=options.identity,
        )
        api = await Api.connect(kubeconfig=options.kubeconfig)
        api.write_gate = leadership.check
        api.took = self._metrics.api_call_took
        server = self._server(api, leadership)
        leadership.start()
        try:
            await self._listen(server)
            await self._lead_until_stopped(api, leadership)
        finally:
            await server.stop()
            await self._stop_following()
            await asyncio.to_thread(leadership.stop, True)
            await api.close()

    async def _lead_until_stopped(self, api: Api, leadership: Leadership) -> None:
        leading = asyncio.create_task(self._lead(api, leadership), name="lead")
        stopped = asyncio.create_task(self._stop.wait(), name="stop")
        await asyncio.wait({leading, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for task in (leading, stopped):
            task.cancel()
        await asyncio.gather(leading, stopped, return_exceptions=True)
        if leading.done() and not leading.cancelled() and (error := leading.exception()):
            raise error

    async def _lead(self, api: Api, leadership: Leadership) -> None:
        backoff = Backoff(Random())
        while True:
            await self._follow(api)
            await leadership.wait_until_leading()
            self._metrics.lease_is_held(True)
            try:
                ending = await self._serve_term(api, leadership)
                log.info("term_over", ending=ending)
                backoff.reset()
            except NotLeading:
                log.warning("term_over", ending="leadership lost in the middle of a write")
            except Exception as error:
                log.error("term_broken", trace=error, hint=getattr(error, "hint", ""))
                await asyncio.sleep(backoff.next_seconds(at_least=1.0))
            finally:
                self._metrics.lease_is_held(leadership.leading)

    async def _follow(self, api: Api) -> Informers:
        """Those of the last term, unless they broke."""
        if self._informers is None or not self._informers.follows:
            await self._stop_following()
            nodes = self._settings.workers.nodes
            self._informers = Informers(api, nodes, self._metrics, Random(self._settings.seed))
            self._informers.start()
        return self._informers

    async def _stop_following(self) -> None:
        if self._informers is not None:
            await self._informers.stop()

    async def _serve_term(self, api: Api, leadership: Leadership) -> str:
        term = Term(
            api,
            leadership,
            self._settings,
            metrics=self._metrics,
            open_journal=self._open_journal,
            informers=await self._follow(api),
            faults=self._faults,
        )
        self._term = term
        try:
            async with asyncio.TaskGroup() as beside:
                tasks = [
                    beside.create_task(self._point_here(api, term), name="endpoint"),
                    beside.create_task(self._forget_heads(term), name="meetings"),
                ]
                ending = await term.run()
                for task in tasks:
                    task.cancel()
            return ending.value
        except BaseExceptionGroup as group:
            raise _first(group) from group
        finally:
            self._term = None
            self._meetings.keep(lambda job, epoch: False)
            self._metrics.api_calls_are(api.calls)

    # --- reports ------------------------------------------------------------------------------

    async def _point_here(self, api: Api, term: Term) -> None:
        options = self._options
        if not (options.pod_ip and options.reports_service and options.reports_port):
            return
        await term.wait_until_begun()
        await publish_endpoint(
            api,
            namespace=options.namespace,
            service=options.reports_service,
            address=options.pod_ip,
            port=options.reports_port,
        )

    def pod(self, namespace: str, pod_name: str, pod_uid: str) -> WorkerIdentity | None:
        term = self._term
        observed = None if term is None else term.pods.items.get(f"{namespace}/{pod_name}")
        if term is None or observed is None or observed.uid != pod_uid or not observed.job:
            return None
        job = term.jobs.items.get(observed.key)
        if job is not None and job.uid != observed.owner:
            return None
        head = HEAD_SEAT if job is None or job.epoch != observed.epoch else job.headship.seat
        return WorkerIdentity(
            namespace, observed.job, observed.epoch, observed.seat, observed.owner, head
        )

    def epoch_of(self, namespace: str, job: str) -> int | None:
        term = self._term
        observed = None if term is None else term.jobs.items.get(f"{namespace}/{job}")
        return None if observed is None else observed.epoch

    def headship(self, namespace: str, job: str) -> Headship:
        term = self._term
        observed = None if term is None else term.jobs.items.get(f"{namespace}/{job}")
        return FIRST if observed is None else observed.headship

    async def put_on_record(self, worker: WorkerIdentity, headship: Headship) -> None:
        """What the executor held back until another seat leads goes on: it sees the record."""
        if self._term is not None:
            key = f"{worker.namespace}/{worker.job}"
            await self._term.record_headship(key, worker.epoch, headship)

    def outlook(self, namespace: str, job: str) -> Outlook:
        term = self._term
        return Outlook() if term is None else term.outlook(f"{namespace}/{job}")

    def hear(self, worker: WorkerIdentity, report: Report) -> None:
        """A worker's word: into the status at leisure, and to the brain where it measures work."""
        term = self._term
        if term is None:
            return
        try:
            self._take_in(term, worker, report)
        except BadEvent as error:
            raise Refusal(
                422, f"a number of the report cannot be: {error}", hint="Send what was measured."
            ) from error

    def _take_in(self, term: Term, worker: WorkerIdentity, report: Report) -> None:
        key, now = f"{worker.namespace}/{worker.job}", term.now()
        before = term.progress.of(key)
        told = term.progress.hear(key, worker, report, now)
        term.status_writer.report_came(key)
        if before is None or (told.live, told.order) != (before.live, before.order):
            term.executor.touch(key)
        slot = term.brain.state.slot_of.get(JobId(key))
        if slot is None or term.brain.state.state_of(slot) not in (State.RUNNING, State.RESIZING):
            return
        spec, observed = term.brain.state.spec(slot), term.jobs.items.get(key)
        if observed is not None:
            _tell_offers(term, slot, observed, told.offers)
            measured = term.speeds.hear(spec, observed, worker, report, now)
            if measured is not None:
                term.decider.deliver(measured)
        done = told.work_done(spec.work)
        if done is not None and term.progress.is_due(key, now):
            term.decider.deliver(JobReported(now, spec.id, worker.epoch, Phase.RUNNING, done))

    async def _forget_heads(self, term: Term) -> None:
        """Where a head listened is nobody's business once its incarnation is over."""
        while True:
            await asyncio.sleep(FORGET_SECONDS)
            self._meetings.keep(lambda job, epoch: _holds_seats(term, job, epoch))

    def _server(self, api: Api, leadership: Leadership) -> ReportServer:
        tokens = Tokens(api, reviewed=self._metrics.token_reviewed)
        server = ReportServer(
            tokens,
            self,
            self.hear,
            lambda: leadership.leading and self._term is not None and self._term.begun,
            metrics=self._metrics,
            probes=Probes(healthy=self._is_healthy),
        )
        self._meetings = server.meetings
        return server

    def _is_healthy(self) -> bool:
        return self._term is None or self._term.late_seconds < STUCK_SECONDS

    async def _listen(self, server: ReportServer) -> None:
        options = self._options
        tls = None
        if options.tls_cert and options.tls_key:
            tls = TlsFiles(Path(options.tls_cert), Path(options.tls_key))
        await server.start(
            workers=_anywhere(options.reports_port),
            metrics=_anywhere(options.metrics_port),
            tls=tls,
        )

    def stop(self) -> None:
        """End the term and let the lease go."""
        self._stop.set()


async def _serve_until_signalled(operator: Operator) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, operator.stop)
    await operator.serve()


def _anywhere(port: int) -> Address | None:
    """Every address of this machine, of both families; port 0 means that nobody listens."""
    return ("", port) if port else None


def _outbox(options: OperatorOptions) -> Outbox | None:
    """Of those who are told, where a file says who is."""
    if not options.notify:
        return None
    return read_outbox(Path(options.notify), f"weft/{options.namespace}/{options.lease}")


def settings_of(options: OperatorOptions) -> TermSettings:
    """What the options say, in the words of a term."""
    nodes, pods = node_rules(options), options.workers == "pods"
    trial_seconds = options.trial_minutes * MINUTE_SECONDS if pods else 0.0
    return TermSettings(
        identity=options.identity,
        health=HealthMap.of(options.namespace, options.lease),
        outbox=_outbox(options),
        taints=options.taint_nodes,
        recipe=options.recipe,
        rules=Rules(
            pods=pods,
            default_image=options.default_image,
            permissions=Permissions(
                lending=options.lending,
                priority_classes=options.priority_class,
                tolerations=nodes.job_tolerations,
            ),
            book=read_rules(Path(options.failure_rules)) if options.failure_rules else shipped(),
            fence_seconds=options.fence_seconds,
            keep_seconds=options.keep_days * DAY_SECONDS or None,
            trial_seconds=trial_seconds,
            gang_probe_gpus=options.gang_probe_gpus,
        ),
        workers=WorkerSettings(
            scheduler_name=options.scheduler_name,
            default_image=options.default_image,
            run_as_user=options.run_as_user,
            report_url=options.report_url,
            report_ca_path=options.report_ca,
            report_ca=certificates_in(options.tls_ca),
            isolated=options.isolated,
            reached_from=tuple(_pair(text) for text in options.reached_from),
            nodes=nodes,
        ),
        brain=Settings(
            backoff_seconds=options.backoff_seconds,
            mixes_tenants=False,
            trial_seconds=trial_seconds,
        ),
        scale_up=ScaleUp(options.scale_up_pods, options.scale_up_class),
        namespace=options.namespace,
        services=read_services(Path(options.failure_rules)) if options.failure_rules else {},
    )


def node_rules(options: OperatorOptions) -> NodeRules:
    """Which nodes are Weft's, and how they are read."""
    usual = NodeRules()
    return NodeRules(
        selector=tuple(_pair(text) for text in options.node_selector),
        gpu_resources=options.gpu_resource or usual.gpu_resources,
        rack_labels=options.rack_label or usual.rack_labels,
        tolerations=options.toleration,
        job_tolerations=options.job_toleration,
        gpu_class=options.gpu_class,
    )


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key, value


def _tell_offers(
    term: Term, slot: int, observed: ObservedJob, said: tuple[Capability, ...]
) -> None:
    """As what its program can be run, if that is news."""
    known, offers = term.brain.state.plan_book.entry(slot), offered(observed, said)
    if offers and (known.offers, known.epoch) != (frozenset(offers), observed.epoch):
        job = term.brain.state.spec(slot).id
        term.decider.deliver(PlansOffered(term.now(), job, observed.epoch, offers))


def _holds_seats(term: Term, job: str, epoch: int) -> bool:
    key, _, uid = job.rpartition("/")
    observed = term.jobs.items.get(key)
    if observed is None or (observed.uid, observed.epoch) != (uid, epoch):
        return False
    return observed.state in HOLDING


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that a group of tasks failed with; a lost lease explains all others."""
    found: list[BaseException] = []
    _collect(group, found.append)
    lost = [error for error in found if isinstance(error, NotLeading)]
    return (lost or found)[0]


def _collect(error: BaseException, take: Callable[[BaseException], None]) -> None:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            _collect(inner, take)
    else:
        take(error)
