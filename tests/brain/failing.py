"""Ends of programs as they are found, for brains that have to judge them."""

from weft.failure.diagnosis import Diagnosis, Ranks, diagnose
from weft.failure.lines import Line, Stream
from weft.failure.rulebook import shipped
from weft.model.ids import NodeId

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus."
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
HDFS = "java.net.ConnectException: Call From w1 to nn:8020 failed on connection exception"
S3 = "botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL"
SYNTAX = "SyntaxError: invalid syntax"
MISSING = "FileNotFoundError: [Errno 2] No such file or directory: '/data/a.bin'"


def said(text: str, node: str = "", stream: Stream = Stream.APP) -> Diagnosis:
    """What a line says, told by rank 0 of that node."""
    where = NodeId(node) if node else None
    line = Line(text, stream, None, where, 0)
    return diagnose([line], shipped(), Ranks({} if where is None else {0: where}, {}))


def kernel(node: str) -> Diagnosis:
    """Its kernel says that a GPU is gone."""
    return said(XID, node, Stream.KERNEL)
