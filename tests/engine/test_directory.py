"""The store among hostile neighbours: links, pipes, second names, folders that are swapped, torn ends, full disks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from easyagent.directory import Directory
from easyagent.journal import Journal, read_journal
from easyagent.models import SubAgentEnd, TurnStarted
from easyagent.subagents import RunStore
from easyagent.subagents.store import archive_earlier_record, write_snapshot
from easyagent.testing.launcher_contract import make_job


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder outside, with a secret that must stay as it is."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "secret").write_text("secret")
    return folder


def untouched(victim: Path) -> bool:
    return [path.name for path in victim.iterdir()] == ["secret"] and (victim / "secret").read_text() == "secret"


def traps(folder: Path, name: str, victim: Path) -> dict[str, Path]:
    """What can stand where a file is expected; each in a folder of its own."""
    made = {}
    for kind in ("link", "dangling link", "second name", "pipe", "folder"):
        place = folder / kind.replace(" ", "-")
        place.mkdir(parents=True)
        file = made[kind] = place / name
        if kind == "link":
            file.symlink_to(victim / "secret")
        elif kind == "dangling link":
            file.symlink_to(victim / "new")
        elif kind == "second name":
            os.link(victim / "secret", file)
        elif kind == "pipe":
            os.mkfifo(file)
        else:
            file.mkdir()
    return made


def test_a_journal_is_a_regular_file_of_its_own_or_none(tmp_path: Path, victim: Path) -> None:
    for file in traps(tmp_path / "d", "events.jsonl", victim).values():
        with Directory.open(file.parent) as directory:
            with pytest.raises(OSError, match=r"regular file|symbolic|directory|links"):
                Journal(directory)
            assert read_journal(directory) == []
    assert untouched(victim)
    with Directory.open(tmp_path) as directory:  # the control
        Journal(directory).append(TurnStarted(turn=1))
        assert len(read_journal(directory)) == 1


def test_what_is_replaced_or_created_goes_nowhere_else(tmp_path: Path, victim: Path) -> None:
    for kind, file in traps(tmp_path / "d", "end.json", victim).items():
        with Directory.open(file.parent) as directory:
            assert directory.create("end.json", b"mine") is False  # something is there: the first one wins
            assert directory.read("end.json", 100) is None
            if kind == "folder":
                with pytest.raises(OSError):
                    directory.replace("end.json", b"mine")
            else:
                directory.replace("end.json", b"mine")
                assert directory.read("end.json", 100) == b"mine" and not file.is_symlink()
                assert directory.read("end.json", 3) is None  # larger than it may be
            assert os.listdir(file.parent) == ["end.json"]
    assert untouched(victim)


def test_no_step_down_follows_a_link(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "linked").symlink_to(victim)
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "linked").symlink_to(victim)
    (tmp_path / "file").write_text("")
    for names in (("linked",), ("linked", "below"), ("real", "linked"), ("file",), ("file", "below")):
        with pytest.raises(OSError):
            Directory.open(tmp_path, *names, create=True)
    with Directory.open(tmp_path, "real", "new", "deep", create=True) as directory:
        assert directory.path.is_dir()
    assert untouched(victim)


def test_a_folder_swapped_for_a_link_gets_nothing(tmp_path: Path, victim: Path) -> None:
    with Directory.open(tmp_path, "d", create=True) as directory:
        journal = Journal(directory)
        (tmp_path / "d").rename(tmp_path / "moved")
        (tmp_path / "d").symlink_to(victim)
        journal.append(TurnStarted(turn=1))
        directory.replace("conversations.json", b"{}")
        assert directory.create("end.json", b"{}") is True
    assert untouched(victim)
    assert sorted(os.listdir(tmp_path / "moved")) == ["conversations.json", "end.json", "events.jsonl"]


def test_snapshots_and_their_archive_do_not_leave_the_deliverables(tmp_path: Path, victim: Path) -> None:
    job = make_job(workspace=str(tmp_path), deliverables_dir="out/a")
    (tmp_path / "out" / "a").mkdir(parents=True)
    (tmp_path / "out" / "a" / ".subagent").symlink_to(victim)
    for write in (lambda: write_snapshot(tmp_path, job, {}), lambda: archive_earlier_record(tmp_path, job)):
        write()
        assert untouched(victim)
        record = tmp_path / "out" / "a" / ".subagent"
        assert not record.is_symlink()  # what stood in the way is kept under another name
        shutil.rmtree(record, ignore_errors=True)
        record.symlink_to(victim)
    assert sum(path.is_symlink() for path in (tmp_path / "out" / "a").iterdir()) == 3
    record.unlink()
    archive_earlier_record(tmp_path, job)  # nothing there: nothing to do
    for content in ({"run": 1}, {"run": 2}):
        write_snapshot(tmp_path, job, content)
        archive_earlier_record(tmp_path, job)
    names = sorted(os.listdir(tmp_path / "out" / "a" / ".subagent"))
    assert names == [".gitignore", "conversations.1.json", "conversations.2.json"]


def test_a_store_that_is_a_link_is_refused(tmp_path: Path, victim: Path) -> None:
    (tmp_path / ".subagents").symlink_to(victim)
    store = RunStore(tmp_path)
    with pytest.raises(OSError):
        store.create(make_job(workspace=str(tmp_path)))
    assert store.end("conv_1") is None and store.events("conv_1") == [] and untouched(victim)


@pytest.mark.parametrize("rest", [b"", b"{", b'{"type":"turn_started"', b"\0" * 64, b"nonsense\n", b"{}\n{}\n"])
def test_a_torn_end_is_cut_before_the_first_append(tmp_path: Path, rest: bytes) -> None:
    with Directory.open(tmp_path) as directory:
        first = Journal(directory)
        for turn in (1, 2):
            first.append(TurnStarted(turn=turn))
        first.close()
        with (tmp_path / "events.jsonl").open("ab") as file:
            file.write(rest)
        Journal(directory).append(TurnStarted(turn=3))
        turns = [(event.seq, getattr(event, "turn", None)) for event in read_journal(directory)]
        assert turns == [(0, 1), (1, 2), (2, 3)]


def test_the_first_recorded_end_holds(tmp_path: Path) -> None:
    store, job = RunStore(tmp_path), make_job(workspace=str(tmp_path))
    store.create(job)
    ends = [
        SubAgentEnd(status=status, cause="crash", ended_at="2026-01-01T00:00:00Z") for status in ("failed", "timeout")
    ]
    assert [store.write_end(job.sub_conversation_id, end) for end in ends] == [ends[0], ends[0]]
    assert store.end(job.sub_conversation_id) == ends[0]
