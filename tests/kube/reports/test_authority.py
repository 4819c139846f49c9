"""What workers are given to check the operator's certificate against, and what never."""

from pathlib import Path

import pytest

from tests.agent.reports.endpoint import a_certificate
from weft.kube.reports.authority import MOST_BYTES, certificates_in
from weft.model.errors import WorldError


def test_a_certificate_is_given_as_it_is(tmp_path: Path) -> None:
    file = a_certificate(tmp_path / "made").certificate
    assert certificates_in(str(file)) == file.read_text()
    assert certificates_in("") == ""


def test_a_key_is_never_given(tmp_path: Path) -> None:
    made = a_certificate(tmp_path / "made")
    both = tmp_path / "both.pem"
    both.write_text(made.certificate.read_text() + made.key.read_text())
    for file in (made.key, both):
        with pytest.raises(WorldError) as caught:
            certificates_in(str(file))
        assert "without any key" in (caught.value.hint or "")


@pytest.mark.parametrize("text", ["", "no certificate", "\u00e9"])
def test_what_is_no_certificate_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "ca.crt"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(WorldError):
        certificates_in(str(file))
    with pytest.raises(WorldError):
        certificates_in(str(tmp_path / "absent"))


def test_a_bundle_that_no_annotation_holds_is_refused(tmp_path: Path) -> None:
    text = a_certificate(tmp_path / "made").certificate.read_text()
    bundle = tmp_path / "bundle.crt"
    bundle.write_text(text * (MOST_BYTES // len(text) + 1))
    with pytest.raises(WorldError, match="more than a few"):
        certificates_in(str(bundle))
