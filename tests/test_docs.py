"""The words of README and docs, held to the code that they describe."""

import re
from pathlib import Path

import annotated_types
import pytest
import yaml
from pydantic.fields import FieldInfo

from jobs.conf import EngineSettings
from scheduler_project.embedded.postgres import SETTINGS as POSTGRES
from scheduler_project.environment import Platform
from tests.examples.pages import PAGES as RUNNABLE
from tests.examples.pages import RUN, SHOWN, blocks_of

ROOT = Path(__file__).parent.parent
RESET: dict[str, str] = {}
FOLDERS = [
    *sorted(path.parent.name for path in ROOT.glob("*/__init__.py")),
    *("deploy", "docs", "examples", "requirements", "templates"),
]
SETTINGS = (ROOT / "docs" / "settings.md").read_text()
COMMANDS = (ROOT / "docs" / "commands.md").read_text()
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def shown_default(field: FieldInfo) -> str:
    """``True`` -> `` `true` ``, ``10.0`` -> `` `10` ``, an empty text or collection -> ``empty``."""
    value = field.default
    if value in ((), {}, ""):
        return "empty"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def shown_bounds(field: FieldInfo) -> str:
    lowest = highest = ""
    for rule in field.metadata:
        match rule:
            case annotated_types.Ge(ge=low):
                lowest = f"{low}"
            case annotated_types.Gt(gt=low):
                lowest = f"over {low},"
            case annotated_types.Le(le=high):
                highest = f"{high}"
            case _ if pattern := getattr(rule, "pattern", None):
                return ", ".join(f"`{choice}`" for choice in re.findall(r"\w+", pattern))
    return f"{lowest} to {highest}" if highest else ""


class TestTheSettingsTable:
    def test_shows_every_engine_setting_with_its_default_and_bounds(self) -> None:
        rows = re.findall(r"^\| `(CARILLON_\w+)` \| (.+?) \| (.*?) ?\| .+ \|$", SETTINGS, re.MULTILINE)
        prefix = EngineSettings.model_config["env_prefix"]
        assert rows == [
            (f"{prefix}{name}".upper(), shown_default(field), shown_bounds(field))
            for name, field in EngineSettings.model_fields.items()
        ]

    def test_shows_every_platform_setting(self) -> None:
        names = {str(field.validation_alias) for field in Platform.model_fields.values()}
        assert {name for name in names if f"| `{name}` |" not in SETTINGS} == set()


class TestTheCommandsTable:
    def test_shows_every_target_of_the_makefile(self) -> None:
        targets = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)) - {
            "help"
        }
        assert set(re.findall(r"^\| `make (\w+)` \|", COMMANDS, re.MULTILINE)) == targets

    def test_shows_every_management_command(self) -> None:
        ours = {path.stem for path in ROOT.glob("*/management/commands/[a-z]*.py")}
        assert set(re.findall(r"^\| `manage\.py (\w+)", COMMANDS, re.MULTILINE)) == ours


class TestLinks:
    @pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
    def test_lead_somewhere(self, page: Path) -> None:
        links = re.findall(r"\]\((?!https?://)([^)#]+)(?:#[^)]*)?\)", page.read_text())
        assert [link for link in links if not (page.parent / link).exists()] == []


def said_in(path: Path) -> str:
    """The prose of a file: a page without its code, the comments of SQL, comments and docstrings of Python."""
    text = path.read_text()
    match path.suffix:
        case ".md":
            return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
        case ".sql":
            return "\n".join(re.findall(r"--(.*)$", text, re.MULTILINE))
    told = re.finditer(r'"""([\s\S]*?)"""|#(.*)$', text, re.MULTILINE)
    return "\n".join(found[1] or found[2] or "" for found in told)


class TestReferences:
    """Sections of the design, files, modules and decisions that documents, SQL and docstrings name exist."""

    SAID = {
        str(path.relative_to(ROOT)): said_in(path)
        for path in (
            *PAGES,
            *(
                path
                for folder in FOLDERS
                for suffix in ("py", "sql")
                for path in sorted((ROOT / folder).rglob(f"*.{suffix}"))
            ),
        )
    }
    DESIGN = (ROOT / "docs" / "design.md").read_text()

    def each(self, pattern: str) -> set[tuple[str, str]]:
        """(file, text of the pattern's group) of everything that is said anywhere."""
        compiled = re.compile(pattern)
        return {(name, found) for name, text in self.SAID.items() for found in compiled.findall(text)}

    def test_name_sections_of_the_design_that_exist(self) -> None:
        sections = dict(re.findall(r"^## (\d+)\. .+\n([\s\S]*?)(?=^## |\Z)", self.DESIGN, re.MULTILINE))
        there = set(sections) | {
            f"{section}.{item}"
            for section, text in sections.items()
            for item in re.findall(r"^(\d+)\. ", text, re.MULTILINE)
        }
        lists = self.each(r"DESIGN\s+((?:§[\d.]*\d(?:, | and )?)+)")
        named = {(name, section) for name, found in lists for section in re.findall(r"[\d.]*\d", found)}
        assert len(named) > 80
        assert {(name, section) for name, section in named if section not in there} == set()
        titles = self.each(r"DESIGN\s+§[\d.]+ \"(\w+)\"")
        assert {(name, title) for name, title in titles if f"**{title}" not in self.DESIGN} == set()

    def test_name_files_and_folders_that_exist(self) -> None:
        start = r"(?<![\w/.:…}>*-])"
        files = self.each(start + r"((?:[\w-]+/)+[\w-]+\.(?:py|sql|md|txt|toml|yml|html|json))\b")
        folders = self.each(start + rf"((?:{'|'.join({*FOLDERS} - {'carillon'})})/[\w./-]*\w)")
        assert len(files) > 150

        def exists(name: str, path: str) -> bool:
            # Relative to the root, to a package (store/sql/jobs.sql) or to the file that names it; or the number of an
            # ADR.
            bases = (ROOT, ROOT / "jobs", *(ROOT / name).parents)
            return any((base / path).exists() for base in bases) or any(ROOT.glob(f"{path}-*"))

        assert {(name, path) for name, path in files | folders if not exists(name, path)} == set()

    def test_name_modules_that_exist(self) -> None:
        named = self.each(r"``((?:jobs|tenants|scheduler_project|chaos|benchmarks|tests)\.[\w.]*\w)``")
        assert len(named) > 50

        def exists(module: str) -> bool:
            """A module, or a name that it defines or imports, with attributes behind it."""
            path, rest = ROOT.joinpath(*module.split(".")), ""
            while not (path.is_dir() or path.with_suffix(".py").exists()):
                path, rest = path.parent, path.name
            source = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
            return not rest or (source.exists() and re.search(rf"\b{rest}\b", source.read_text()) is not None)

        queues = {"jobs.a", "chaos.nothing"}
        named = {(name, module) for name, module in named if module not in queues}
        assert {(name, module) for name, module in named if not exists(module)} == set()

    def test_name_decisions_that_exist(self) -> None:
        named = self.each(r"\b(?:ADR|adr) (\d+)\b")
        assert len(named) > 30
        assert {(name, n) for name, n in named if not any(ROOT.glob(f"docs/adr/{int(n):04}-*"))} == set()


class TestExamples:
    """``tests/examples/test_live.py`` runs them. These tests check that none is left out."""

    @pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.name)
    def test_say_what_they_are_and_why_they_are_not_run(self, page: Path) -> None:
        blocks = blocks_of(page)
        assert len(blocks) == len(re.findall(r"^ *```\w", page.read_text(), re.MULTILINE))
        assert [str(block) for block in blocks if block.language not in (*RUN, *SHOWN)] == []
        known = re.compile(r"not run: .{15,}|runs on|a job|payload of \S+|")
        assert [str(block) for block in blocks if not known.fullmatch(block.marker)] == []


class TestWhere:
    TEXT = (ROOT / "docs" / "where.md").read_text()
    ROWS = re.findall(r"^\| ((?!I want).+?) \| (`.+`) \| (`.+`) \|$", TEXT, re.MULTILINE)

    def test_answers_every_question_with_a_file_or_two(self) -> None:
        assert len(self.ROWS) >= 20
        assert self.TEXT.count("\n| ") == len(self.ROWS) + self.TEXT.count("\n| I want")
        assert [question for question, files, _ in self.ROWS if len(files.split(", ")) > 2] == []

    def test_names_files_that_hold_what_to_search_for(self) -> None:
        def missing(files: str, names: str) -> list[str]:
            paths = [ROOT / path for path in re.findall(r"`(.+?)`", files)]
            found = zip(re.findall(r"`(.+?)`", names), paths, strict=False)
            there = all(path.is_file() for path in paths)
            return [name for name, path in found if not there or name not in path.read_text()]

        told = {question: missing(files, names) for question, files, names in self.ROWS}
        assert {question: names for question, names in told.items() if names} == {}


class TestTheThreatModel:
    TEXT = (ROOT / "docs" / "security.md").read_text()
    ROWS = re.findall(r"^\| ([STRIDE, ]+) \| (.+?) \| (.+?) \| (.+) \|$", TEXT, re.MULTILINE)

    def test_names_a_test_for_each_threat(self) -> None:
        named = {threat: re.findall(r"`(tests/[\w/]+\.py)`", tests) for _, threat, _, tests in self.ROWS}
        assert len(named) > 30
        assert [threat for threat, tests in named.items() if not tests] == []
        assert {test for tests in named.values() for test in tests if not (ROOT / test).exists()} == set()

    def test_names_each_file_of_attacks(self) -> None:
        attacks = {f"tests/attacks/{path.name}" for path in (ROOT / "tests" / "attacks").glob("test_*.py")}
        assert len(attacks) > 20
        assert (
            attacks - {test for *_, tests in self.ROWS for test in re.findall(r"`([^`]+)`", tests)} == set()
        )


class TestTheDockerImage:
    def test_copies_only_what_the_ignore_file_lets_through(self) -> None:
        allowed = set(re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
        copied = re.findall(r"^COPY (\S+) ", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
        assert set(copied) == allowed


class TestTheComposeFile:
    TEXT = (ROOT / "docker-compose.yml").read_text()
    SERVICES = yaml.safe_load(TEXT)["services"]

    def test_gives_no_secret_a_default(self) -> None:
        secrets = re.findall(r"\$\{(\w*(?:PASSWORD|SECRET|KEY|AUTH)\w*)(.*?)\}", self.TEXT)
        assert secrets
        assert all(rest.startswith(":?") for _, rest in secrets)

    def test_checks_the_health_of_everything_that_stays_up(self) -> None:
        assert {name for name, service in self.SERVICES.items() if "healthcheck" not in service} == {
            "migrate"
        }

    def test_gives_no_container_more_than_its_start_needs(self) -> None:
        assert {
            name for name, service in self.SERVICES.items() if service.get("cap_drop") != ["ALL"]
        } == set()
        # Its own entry point gives root up. A shell in its place would keep it.
        assert "docker-entrypoint.sh redis-server" in self.SERVICES["redis"]["command"]
        assert "--maxmemory " in self.SERVICES["redis"]["command"]

    def test_has_postgres_log_no_rows_and_no_statements(self) -> None:
        """Like the embedded Postgres: rows and statements that fail hold payloads (tests/attacks/test_canary.py)."""
        told = dict(re.findall(r"-c (\w+)=(\w+)", self.SERVICES["postgres"].get("command", "")))
        wanted = ("log_error_verbosity", "log_min_error_statement")
        assert {name: told.get(name) for name in wanted} == {name: POSTGRES[name] for name in wanted}

    def test_tells_flowers_login_to_flower_alone(self) -> None:
        told = {
            name
            for name, service in self.SERVICES.items()
            if service.get("env_file") and service["environment"].get("FLOWER_BASIC_AUTH") != ""
        }
        assert told == {"flower"}

    def test_tells_the_password_of_the_tables_owner_to_migrate_alone(self) -> None:
        """The others' database role cannot undo the audit trail. They read .env, which has the owner's password too."""
        ours = {name: one["environment"] for name, one in self.SERVICES.items() if one.get("env_file")}
        assert {name for name, given in ours.items() if given["POSTGRES_PASSWORD"] != ""} == set()
        owners = {name for name, given in ours.items() if "//carillon:" in given["DATABASE_URL"]}
        assert owners == {"migrate"}
        assert "grant_roles carillon_app" in self.SERVICES["migrate"]["command"]

    @pytest.mark.parametrize(
        ("hosts", "asked"), [("a.example,b", "a.example"), (".example", "example"), ("*", "localhost")]
    )
    def test_asks_the_web_process_by_a_name_that_it_takes(
        self, hosts: str, asked: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The health check is run as it stands, against a server that only looks at the name."""
        monkeypatch.setenv("ALLOWED_HOSTS", hosts)
        seen: list[str] = []
        monkeypatch.setattr(
            "urllib.request.urlopen", lambda request, **_: seen.append(request.get_header("Host"))
        )
        exec(self.SERVICES["web"]["healthcheck"]["test"][-1], {})
        assert seen == [asked]

    def test_publishes_nothing_beyond_this_machine(self) -> None:
        ports = [port for service in self.SERVICES.values() for port in service.get("ports", [])]
        assert all(port.startswith("127.0.0.1:") for port in ports)

    def test_has_rabbitmq_in_place_of_redis_for_each_of_our_containers_with_the_other_file(self) -> None:
        """``!reset`` and ``!override`` remove the first file's value."""
        path = ROOT / "deploy" / "compose.rabbitmq.yml"
        tags = {"!reset": lambda *_: RESET, "!override": lambda loader, node: loader.construct_mapping(node)}
        loader = type("Loader", (yaml.SafeLoader,), {})
        for tag, construct in tags.items():
            loader.add_constructor(tag, construct)
        file = yaml.load(path.read_text(), loader)
        changed, ours = file["services"], {n for n, one in self.SERVICES.items() if one.get("env_file")}
        assert {name for name in self.SERVICES if "redis" in self.SERVICES[name].get("depends_on", ())} == {
            name for name in changed if "rabbitmq" in changed[name].get("depends_on", ())
        }
        assert changed.pop("redis") is file["volumes"]["redis"] is RESET
        assert {n for n, one in changed.items() if one["environment"].get("REDIS_URL") is RESET} == ours
        assert {
            n for n, one in changed.items() if "amqp://" in one["environment"].get("BROKER_URL", "")
        } == ours
        assert changed["rabbitmq"]["cap_drop"] == ["ALL"]
        assert "healthcheck" in changed["rabbitmq"]

    def test_asks_for_nothing_the_example_does_not_name(self) -> None:
        required = set(re.findall(r"\$\{(\w+):\?", self.TEXT))
        given = set(re.findall(r"^(\w+)=", (ROOT / "deploy" / "env.example").read_text(), re.MULTILINE))
        assert required == given
