"""One running cluster: started from nothing in seconds, emptied in milliseconds.

`start`, `reset` and `stop` are its life; the rest is what tests arrange in it, or do to it. The
thread that starts it must live as long as it does (see `process`).
"""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

import yaml

from tools.testcluster import arguments, network
from tools.testcluster.binaries import find
from tools.testcluster.layout import ADMIN, LOOPBACK, Layout, static_token
from tools.testcluster.network import Network
from tools.testcluster.nodes import PROBE, node, probe_node, probe_pod, ready_condition
from tools.testcluster.process import Process
from tools.testcluster.rest import APPLY_PATCH, STRATEGIC_PATCH, Rest
from tools.testcluster.store import Store
from weft.model.errors import WorldError

_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.02
_WRITERS = 8
_FOLLOWED = (b"/registry/minions/", b"/registry/pods/")  # nodes have kept their first name in etcd


class ControlPlane:
    """etcd and kube-apiserver; if `full`, also controllers, scheduler and fake kubelets.

    If `real`, there are no fake kubelets, and the API server listens where the pods of real nodes
    (`real_nodes`) reach it.
    """

    def __init__(self, *, full: bool = True, real: bool = False) -> None:
        self.full = full or real
        self.layout = Layout.make(network.ADDRESS if real else LOOPBACK)
        self._network = Network(self.layout.folder) if real else None
        self._processes: dict[str, Process] = {}
        self._store = Store(self.layout.etcd_port)
        self._admin: Rest | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Return when the API server is ready and, in a full one, its controllers work."""
        if self._network:
            self._network.start()
        self._run("etcd", arguments.etcd(self.layout))
        self.start_apiserver()
        if self.full:
            self._start_the_rest()
        self.keep()

    def stop(self) -> None:
        """End every process and remove the folder."""
        self._disconnect()
        self._store.close()
        for process in reversed(self._processes.values()):
            process.kill()
        if self._network:
            self._network.stop()
        shutil.rmtree(self.layout.folder, ignore_errors=True)

    def keep(self) -> None:
        """Let what is stored now survive every `reset`."""
        self._store.keep()

    def reset(self) -> None:
        """Bring the store back to what was kept, and wait until the running programs know."""
        if self._network:
            raise WorldError(
                "real nodes cannot be emptied through etcd: kubelets would not follow",
                hint="give each test a namespace of its own, or a cluster of its own",
            )
        removed = self._store.restore()
        # kwok dies of a node that was deleted while its watch was down.
        if self.full and not self._processes["kwok"].alive:
            self._processes["kwok"].start()
        for process in self._processes.values():
            process.check()
        if self.full and any(key.startswith(_FOLLOWED) for key in removed):
            self._wait_for_followers()
            self._store.restore()

    # ------------------------------------------------------------------ ways to reach it

    @property
    def url(self) -> str:
        return self.layout.url

    @property
    def ca(self) -> Path:
        return self.layout.certificate

    @property
    def network(self) -> Network:
        """The wire that real nodes are attached to."""
        if self._network is None:
            raise WorldError("the nodes of this control plane are fake", hint="say real=True")
        return self._network

    @property
    def admin_token(self) -> str:
        return static_token(ADMIN)

    @property
    def api(self) -> Rest:
        """A connection as admin, for what a test arranges and checks; not for several threads."""
        if self._admin is None:
            self._admin = self.connect()
        return self._admin

    def connect(self, user: str = ADMIN) -> Rest:
        """A connection of its own, as `admin` or one of `layout.USERS`; to be closed."""
        layout = self.layout
        return Rest(layout.api_port, self.ca, static_token(user), layout.address)

    def kubeconfig(self, user: str = ADMIN, *, namespace: str = "default") -> Path:
        """A file for `admin` or one of `layout.USERS`."""
        return self.layout.kubeconfig(user, static_token(user), namespace)

    def service_account_kubeconfig(self, namespace: str, account: str) -> Path:
        """A file with a fresh token of a service account, which must exist."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        answer = self.api.must("POST", path, {"spec": {"expirationSeconds": 3600}})
        token = str(answer["status"]["token"])
        return self.layout.kubeconfig(f"{namespace}.{account}", token, namespace)

    def kubectl(self, *words: str, user: str = ADMIN) -> str:
        """What kubectl printed; raises with its complaint if it failed."""
        command = [str(find("kubectl")), f"--kubeconfig={self.kubeconfig(user)}", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise WorldError(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    # ------------------------------------------------------------------ what is in it

    def apply_crds(self, folder: Path) -> None:
        """Apply every definition in the folder and wait until it is served."""
        for file in sorted(folder.glob("*.yaml")):
            for definition in yaml.safe_load_all(file.read_text()):
                if definition:
                    self._apply_crd(definition)

    def add_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """Create a namespace and wait for its service account: before that no pod is let in."""
        body = {"metadata": {"name": name, "labels": dict(labels or {})}}
        self.api.must("POST", "/api/v1/namespaces", body)
        if self.full:
            self._wait_for_account(name)

    def add_nodes(
        self,
        count: int,
        *,
        gpus: int = 8,
        cpus: int = 96,
        memory_gib: int = 1000,
        prefix: str = "node",
        labels: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Create ready nodes `<prefix>-0` and so on."""
        names = [f"{prefix}-{index}" for index in range(count)]
        resources = {"cpu": str(cpus), "memory": f"{memory_gib}Gi", "nvidia.com/gpu": str(gpus)}
        port = self.layout.kubelet_port
        self._create_all("/api/v1/nodes", [node(n, resources, labels or {}, port) for n in names])
        return names

    def set_ready(self, name: str, ready: bool) -> None:
        """Let a node report again, or fall silent: the controllers then taint it as they do."""
        body = {"status": {"conditions": [ready_condition("True" if ready else "Unknown")]}}
        self.api.must("PATCH", f"/api/v1/nodes/{name}/status", body, STRATEGIC_PATCH)

    # ------------------------------------------------------------------ what befalls it

    def stop_apiserver(self) -> None:
        self._disconnect()
        self._processes["kube-apiserver"].kill()

    def start_apiserver(self) -> None:
        """At the address and with the certificate that it had before, if it ever ran."""
        self._run("kube-apiserver", arguments.kube_apiserver(self.layout, full=self.full))
        self._wait("kube-apiserver", self._is_ready)

    def restart_apiserver(self) -> None:
        """The other programs find it again when their back-off lets them: that may take 10 s."""
        self.stop_apiserver()
        self.start_apiserver()

    def freeze(self, program: str) -> None:
        """Stop a program in its tracks: its connections stay open and nothing answers."""
        self._processes[program].freeze()

    def thaw(self, program: str) -> None:
        self._processes[program].send(signal.SIGCONT)

    def compact(self) -> None:
        """Forget history: after a restart, no watch can begin at a resourceVersion before now."""
        self._store.compact()

    def pids(self) -> dict[str, int]:
        return {name: process.pid for name, process in self._processes.items() if process.pid}

    # ------------------------------------------------------------------ helpers

    def _start_the_rest(self) -> None:
        admin = self.kubeconfig()
        self._run("kube-controller-manager", arguments.kube_controller_manager(self.layout, admin))
        self._run("kube-scheduler", arguments.kube_scheduler(admin))
        if not self._network:
            self._run("kwok", arguments.kwok(self.layout, admin))
        self._wait_for_account("default")

    def _run(self, name: str, words: list[str]) -> None:
        process = self._processes[name] = Process(name, words, self.layout.folder)
        process.start()

    def _is_ready(self) -> bool:
        try:
            return self.api.send("GET", "/readyz").status == HTTPStatus.OK
        except OSError:  # no certificate yet, or nobody listens
            return False

    def _wait_for_followers(self) -> None:
        """Until a new pod runs on a new node: watches are in order, so all before it is known.

        Otherwise scheduler and kubelets might still act on the nodes of the test before.
        """
        self.api.must("POST", "/api/v1/nodes", probe_node())
        path = f"/api/v1/nodes/{PROBE}"
        self._wait("kwok", lambda: bool(self.api.must("GET", path)["status"].get("conditions")))
        path = "/api/v1/namespaces/default/pods"
        self.api.must("POST", path, probe_pod())
        path = f"{path}/{PROBE}"
        self._wait("kwok", lambda: self.api.must("GET", path)["status"]["phase"] == "Running")

    def _apply_crd(self, definition: dict[str, Any]) -> None:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
        path += str(definition["metadata"]["name"])
        self.api.must("PATCH", f"{path}?fieldManager=test&force=true", definition, APPLY_PATCH)

        def served() -> bool:
            conditions = self.api.must("GET", path)["status"]["conditions"] or ()
            return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

        self._wait("kube-apiserver", served)

    def _wait_for_account(self, namespace: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        found = HTTPStatus.OK
        self._wait("kube-controller-manager", lambda: self.api.send("GET", path).status == found)

    def _create_all(self, path: str, bodies: list[dict[str, Any]]) -> None:
        def create(start: int) -> None:
            with self.connect() as connection:
                for body in bodies[start::_WRITERS]:
                    connection.must("POST", path, body)

        with ThreadPoolExecutor(_WRITERS) as pool:
            list(pool.map(create, range(min(_WRITERS, len(bodies)))))

    def _wait(self, program: str, done: Callable[[], bool]) -> None:
        """Until it is done, or the program that is to do it has died, or patience is over."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not done():
            self._processes[program].check()
            if time.monotonic() > deadline:
                raise WorldError(
                    f"waited {_PATIENCE_SECONDS:.0f} s for {program}",
                    hint=f"see {self._processes[program].log}",
                )
            time.sleep(_POLL_SECONDS)

    def _disconnect(self) -> None:
        if self._admin:
            self._admin.close()
            self._admin = None
