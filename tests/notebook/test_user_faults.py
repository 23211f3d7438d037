"""What a user, her files or her machine can get wrong is told in one sentence, in the cell, without a traceback."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from easyagent.testing import call, calls, error, for_main, for_sub_agent


def told(outcome) -> str:
    """The one sentence of a cell that failed."""
    sentence = outcome.stderr.rstrip("\n")
    assert outcome.status == "error" and sentence.startswith("UsageError: ") and "\n" not in sentence, outcome
    return sentence


def test_records_that_cannot_be_written_are_one_sentence(kernel, fake, workspace: Path) -> None:
    records = workspace / ".subagents"
    main = fake.script("main", match=for_main()).repeat("Here I am.")

    def spoilt() -> None:
        if records.is_dir() and not records.is_symlink():
            shutil.rmtree(records)
        else:
            records.unlink(missing_ok=True)

    makers = {
        "a file": lambda: records.write_text("x"),
        "a link": lambda: records.symlink_to(workspace.parent),
        "a dangling link": lambda: records.symlink_to("nowhere"),
    }
    for name, make in makers.items():
        spoilt()
        make()
        assert ".subagents" in told(kernel.run("%%agent --new\nHello.")), name
    assert main.requests == []
    spoilt()
    assert kernel.run("%%agent --new\nHello.").status == "ok"  # the control
    assert len(main.requests) == 1


def test_a_full_disk_is_one_sentence(kernel, fake) -> None:
    fake.script("main", match=for_main()).repeat("x" * 3000)
    assert kernel.run("%%agent\nHello.").status == "ok"
    kernel.run("import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))")
    told(kernel.run("%%agent\nAgain."))
    kernel.run("resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))")
    assert kernel.run("%%agent --new\nAgain.").status == "ok"


LINES: dict[str, tuple[str, str]] = {
    "half an address": ("%%agent --base-url http://[::1 -m x\nHello.", "base_url from the cell"),
    "no port": ("%%agent --base-url http://h:abc/v1 -m x\nHello.", "base_url from the cell"),
    "a long directory": (f"%%agent --dir {'A' * 300}\nHello.", "longer than 255 bytes"),
    "a long Han directory": (f"%%agent --dir {'研' * 100}\nHello.", "longer than 255 bytes"),
    "a long path to read": (f"%%agent --read {'A' * 300}\nHello.", "too long"),
    "nobody's home": ("%%agent --write ~nobody-here/x\nHello.", "names no path"),
    "a superscript": ("%agent status ²", "by its number"),
    "a number of many digits": (f"%agent status {'9' * 5000}", "by its number"),
    "only invisible text": ("%%agent\n\u200b\u2060", "the cell is empty"),
    "an expression that fails": ("%%agent\n{{ 1 / 0 }}", "{{1 / 0}} failed"),
    "an expression that fails in two lines": ("%%agent\n{{ int('a\\nb') }}", "failed: ValueError"),
}


def test_what_cannot_be_read_is_one_sentence(kernel, fake) -> None:
    main = fake.script("main", match=for_main()).repeat("Here I am.")
    for name, (cell, part) in LINES.items():
        assert part in told(kernel.run(cell)), name
    assert main.requests == []
    assert kernel.run(f"%%agent --dir {'A' * 255}\nHello.").status == "ok"  # the control


TEXTS: dict[str, tuple[str, str]] = {
    "no character": ("{{ 'a' + chr(0xd800) }}", "a?"),
    "a name that is not UTF-8": ("{{ __import__('os').fsdecode(b'caf\\xe9') }}", "caf?"),
    "minus without end": ("{{" + "-" * 100_000 + "1}}", "{{" + "-" * 100_000 + "1}}"),
    "brackets without end": ("{{" + "(" * 5000 + ")" * 5000 + "}}", "{{" + "(" * 5000 + ")" * 5000 + "}}"),
    "a path without end": ("See /" + "A" * 300 + " and ~nobody-here/x.", "See /" + "A" * 300 + " and ~nobody-here/x."),
    "an expression": ("{{ 1 + 1 }}", "2"),
}


def test_what_an_expression_gives_is_text(kernel, fake) -> None:
    main = fake.script("main", match=for_main()).repeat("Here I am.")
    for name, (text, sent) in TEXTS.items():
        outcome = kernel.run(f"%%agent\n{text}")
        assert (outcome.status, outcome.error) == ("ok", ""), name
        assert main.requests[-1].messages[-1]["content"] == sent, name


@pytest.mark.parametrize("kind", ["gone", "not UTF-8"])
def test_a_working_directory_that_cannot_be_used_is_told_at_load(kernel, fake, workspace: Path, kind: str) -> None:
    odd = Path(os.fsdecode(os.fsencode(workspace) + b"/caf\xe9"))
    odd.mkdir()
    kernel.run("%unload_ext jupyter_subagents")
    kernel.run("import os; from jupyter_subagents.notebook import _notebook_of; _notebook_of.cache_clear()")
    kernel.run("os.chdir(os.fsencode(os.getcwd()) + b'/caf\\xe9')")
    if kind == "gone":
        odd.rmdir()
    part = "working directory cannot be used" if kind == "gone" else "is not UTF-8"
    assert part in told(kernel.run("%load_ext jupyter_subagents"))
    kernel.run(f"os.chdir({str(workspace)!r})")
    assert kernel.run("%load_ext jupyter_subagents").status == "ok"  # the control
    fake.script("main", match=for_main()).reply("Here I am.")
    assert kernel.run("%%agent\nHello.").status == "ok"


NASTY = "red\x1b[31m\x1b]0;title\x07 \u202elatem\nnext\rline\x9b2J"


def plain(text: str) -> bool:
    return all(character.isprintable() or character in "\n\t" for character in text)


def test_what_models_and_endpoints_say_is_printed_as_plain_lines(kernel, fake) -> None:
    starting = call("create_sub_agent", agent_id=1, summary=NASTY, task="t")
    fake.script("main", match=for_main()).reply(calls(starting)).reply("Done.").reply(error(400, NASTY))
    one = fake.script("one", match=for_sub_agent(1))
    one.reply(calls(call("read_file", path=NASTY)))
    one.reply(calls(call("finish_task", success=False, summary=NASTY)))
    assert kernel.run("%%agent\nHello.").status == "ok"
    status, table = kernel.run("%agent status 1"), kernel.run("%agent")
    assert plain(status.stdout) and status.stdout.count("red latem next line") == 2, status.stdout
    assert plain(table.stdout) and table.stdout.count("\n") == 2 and "red latem" in table.stdout
    shown = kernel.run("from jupyter_subagents import agents; agents[1]")
    assert plain(shown.result) and "red latem" in shown.result
    assert "answered 400: red latem next line" in told(kernel.run("%%agent\nAgain."))
    assert not plain(NASTY)  # the control


def test_a_password_in_an_address_is_not_printed(kernel, fake) -> None:
    fake.script("doctor").repeat("Seven.")
    address = fake.base_url.replace("http://", "http://me:s3cret@")
    for outcome in (kernel.run(f"%agent config base_url={address}"), kernel.run("%agent doctor")):
        assert "s3cret" not in outcome.stdout + outcome.stderr and "http://***@127.0.0.1" in outcome.stdout
