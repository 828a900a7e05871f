"""``carillon import-crontab``: the result of each line, and the message about it."""

from pathlib import Path

import pytest
import yaml

from jobs.actions.pull.types import declare_type
from jobs.models import Job
from tests.cli.conftest import ApiAdapter, Command
from tests.interfaces.api.caller import Caller

USER = r"""# m h dom mon dow command
SHELL=/bin/bash
MAILTO = "ops@example.org"
PATH="/usr/bin:/bin"
CRON_TZ=Europe/Berlin
0 2 * * * /usr/bin/backup --all
*/5 * * * *	poll queue >/dev/null 2>&1
@daily rotate logs
@Midnight rotate logs
@annually  audit
@reboot start-agent
@sometimes nothing
30 4 1,15 * 5 payroll
0 0 */2 * 1 both kinds
5/15 * * * * odd steps
~ 3 * * * random
0 9 * * mon-fri mail boss%Dear boss,%all is well%
0 9 * * * date +\%Y-\%m-\%d
-0 3 * * * quiet
* * * *
0 1 * * * %only input
# the end
CRON_TZ=Asia/Tokyo
0 8 * * 1-5 tokyo VAR=1
"""
SYSTEM = "SHELL=/bin/sh\n17 * * * * root cd / && run-parts /etc/cron.hourly\n25 6 * * * www-data\n"


@pytest.fixture
def crontab(tmp_path: Path) -> Path:
    path = tmp_path / "tab"
    path.write_text(USER)
    return path


class TestUserCrontabs:
    def test_become_definitions(self, carillon: Command, crontab: Path, api: ApiAdapter) -> None:
        printed = carillon("import-crontab", str(crontab), "--prefix", "old/", "--owner", "cron")
        document = yaml.safe_load(printed.out)
        jobs = {job["name"]: job for job in document["jobs"]}
        assert document["owner"] == "cron"
        assert jobs["old/usr-bin-backup-all"] == {
            "name": "old/usr-bin-backup-all",
            "job_type": "command",
            "schedule": {"type": "cron", "cron": "0 2 * * *", "timezone": "Europe/Berlin"},
            "payload": {
                "command": "/usr/bin/backup --all",
                "environment": {"SHELL": "/bin/bash", "PATH": "/usr/bin:/bin"},
            },
            "labels": {"carillon/owner": "cron"},
        }
        assert jobs["old/rotate-logs-2"]["schedule"]["cron"] == "@daily"
        assert jobs["old/audit"]["schedule"]["cron"] == "@yearly"
        assert jobs["old/mail-boss"]["payload"]["stdin"] == "Dear boss,\nall is well\n\n"
        assert jobs["old/date-y-m-d"]["payload"]["command"] == "date +%Y-%m-%d"
        assert jobs["old/quiet"]["schedule"]["cron"] == "0 3 * * *"
        assert jobs["old/tokyo-var-1"]["schedule"]["timezone"] == "Asia/Tokyo"
        assert api.sent == []

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            (11, "REFUSED: @reboot: Fires when a machine starts"),
            (12, "REFUSED: @sometimes: Is not a schedule"),
            (16, "REFUSED: ~ 3 * * *: Each cron draws"),
            (20, "REFUSED: Is not an environment line"),
            (21, "REFUSED: Has no command before the first %"),
            (6, "note: MAILTO=ops@example.org: nothing is mailed"),
            (13, "note: 30 4 1,15 * 5: fires on either kind of day"),
            (14, "note: 0 0 */2 * 1: cron wants both kinds"),
            (15, "note: 5/15 * * * *: crons differ"),
            (17, "note: The text after the unescaped %"),
        ],
    )
    def test_have_each_doubtful_line_explained(
        self, carillon: Command, crontab: Path, line: int, words: str
    ) -> None:
        printed = carillon("import-crontab", str(crontab))
        assert printed.code == 1
        assert f"{crontab}:{line}: {words}" in printed.err

    def test_have_each_schedule_asked_about_on_request(self, carillon: Command, crontab: Path) -> None:
        crontab.write_text("CRON_TZ=UTC\n0 0 30 2 * never\n0 0 * * * daily\n")
        checked = carillon("import-crontab", str(crontab), "--check")
        assert checked.code == 1
        assert f"{crontab}:2: REFUSED: schedule.cron → " in checked.err
        assert f"{crontab}:3" not in checked.err


class TestSystemCrontabs:
    def test_name_a_user(self, carillon: Command, tmp_path: Path) -> None:
        path = tmp_path / "crontab"
        path.write_text(SYSTEM)
        printed = carillon("import-crontab", str(path), "--timezone", "UTC")
        (job,) = yaml.safe_load(printed.out)["jobs"]
        assert job["payload"] == {
            "command": "cd / && run-parts /etc/cron.hourly",
            "environment": {"SHELL": "/bin/sh"},
            "user": "root",
        }
        assert f"{path}:3: REFUSED: Is not an environment line, and does not have five fields" in printed.err


class TestTheWholeWay:
    def test_what_is_printed_can_be_applied(self, carillon: Command, owner: Caller, tmp_path: Path) -> None:
        assert owner.tenant is not None
        declare_type(tenant=owner.tenant, name="command", declaration={})
        tab, file = tmp_path / "tab", tmp_path / "jobs.yaml"
        tab.write_text("0 2 * * * backup\n@hourly poll: yes\n0 3 * * * %not\n")
        refused = carillon("import-crontab", str(tab), "--apply")
        assert (refused.code, Job.objects.count()) == (1, 0)
        printed = carillon("import-crontab", str(tab))
        file.write_text(printed.out)
        assert carillon("apply", "-f", str(file)).code == 0
        assert set(Job.objects.values_list("name", flat=True)) == {"backup", "poll-yes"}
        tab.write_text("0 2 * * * backup\n0 4 * * * later\n")
        assert carillon("import-crontab", str(tab), "--apply").out == "= backup\n+ later\n"
