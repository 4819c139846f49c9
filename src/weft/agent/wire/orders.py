"""Giving an order to an agent that runs already, by its folder."""

import asyncio
import json
import os
from pathlib import Path

from weft.agent.messages import MOST_LINE_BYTES, Answer, Envelope, Hello, Message, decode, encode
from weft.model.errors import WorldError

PATIENCE_SECONDS = 10.0


CARD, KEY, SOCKET, HEAD = "agent.json", "key", "agent.sock", "head.json"


async def ask(folder: Path, message: Message) -> Answer:
    """Say it, and what the agent answered."""
    path = folder / SOCKET
    try:
        card = json.loads((folder / CARD).read_text())
        key = (folder / KEY).read_text()
        reader, writer = await asyncio.open_unix_connection(path, limit=MOST_LINE_BYTES)
    except OSError as error:
        raise WorldError(
            f"no agent at {folder}: {error}", hint="is the job over? its logs are in that folder"
        ) from error
    try:
        hello = Hello("driver", -1, os.getpid(), key)
        for seq, said in enumerate((hello, message), start=1):
            writer.write(encode(Envelope(card["job"], card["incarnation"], seq, said)))
        line = await asyncio.wait_for(reader.readline(), PATIENCE_SECONDS)
    finally:
        writer.close()
    answer = decode(line, strict=False).message if line else None
    if not isinstance(answer, Answer):
        raise WorldError("the agent did not answer", hint="is it another job's folder?")
    return answer
