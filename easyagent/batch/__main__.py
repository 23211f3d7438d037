"""`python -m easyagent.batch JOB`: run the job of a job.json to its end. `--wait` for JOB: the job comes over stdin.

stdin: one JSON line of model settings with the key, then control lines; its end means the parent is gone.
stdout: one event a line. See docs/protocol.md.
"""

from __future__ import annotations

import sys

from easyagent.batch.worker import run_job

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m easyagent.batch JOB | --wait")
    if sys.argv[1] == "--wait":
        from easyagent.batch.spare import wait_for_job  # loads the model's client before there is a job

        sys.exit(wait_for_job())
    sys.exit(run_job(sys.argv[1]))
