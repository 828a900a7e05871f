"""The demo from start to exit code.

Up: receiver, ``manage.py up``, tenants, jobs. Then it plays until it is interrupted or its time is over. If its time is
over, every firing up to a few seconds ago is judged, and the ledger is audited. Down, in every case and in this order:
jobs are deleted (the next demo's receiver has another port), ``up`` is drained, the receiver is closed.

The first SIGINT, SIGTERM or SIGHUP ends the play and lets the way down run; a further signal hastens ``up``. Exit
codes: 0 for a good verdict, and for an interrupted demo that had no end of its own; 1 for a bad verdict or a failure;
128 + the signal when a verdict was asked for and there is none.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.live import Live

from scheduler_project.demo.access import ADMIN, Access, prepare_access
from scheduler_project.demo.client import ApiClient, ApiError
from scheduler_project.demo.receiver import Receiver
from scheduler_project.demo.scenario import WARM_UP, CreatedJob, Reception, SampleJob, sample_jobs
from scheduler_project.demo.system import DemoError, System
from scheduler_project.demo.table import Board, live_view, plain_line, verdict_table
from scheduler_project.demo.verdict import GRACE, DemoVerdict, LedgerAudit, judge

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
REDRAW_SECONDS = 0.5
LINE_EVERY_SECONDS = 5.0
ASK_EVERY_SECONDS = 3.0
WARM_UP_TIMEOUT = timedelta(seconds=60)
Clients = dict[str, ApiClient]


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """The options of the command line. ``lasts`` None: until interrupted. ``port`` is the web's, if it is free."""

    data_dir: Path
    port: int
    lasts: timedelta | None = None


class Demo:
    """One demo; ``run`` it once, on the main thread's event loop."""

    def __init__(self, options: DemoOptions, *, console: Console) -> None:
        self.options = options
        self.console = console
        self._system = System(data_dir=options.data_dir, port=options.port)
        self._receiver = Receiver(log_path=options.data_dir / "log" / "receiver.jsonl")
        self._going_down = False
        self._interrupted_by: signal.Signals | None = None

    async def run(self) -> int:
        """Play, clean up, and return the exit code. Raises ``DemoError`` when the demo cannot go on."""
        play = asyncio.create_task(self._play())
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._heed, number, play)
        try:
            verdict = await play
        except asyncio.CancelledError:
            if self._interrupted_by is None:
                raise
            return 128 + self._interrupted_by if self.options.lasts else 0
        self.console.print(verdict_table(verdict))
        self.console.print(f"Ledger: {verdict.ledger.says}", highlight=False, markup=False)
        style, word = ("bold green", "PASSED") if verdict.passed else ("bold red", "FAILED")
        self.console.print(f"[{style}]{word}[/]  {verdict.summary}", highlight=False)
        return 0 if verdict.passed else 1

    def _heed(self, number: signal.Signals, play: asyncio.Task[DemoVerdict]) -> None:
        """End the play. The way down must not be cut short; during it a signal only hastens it."""
        if self._going_down:
            self._system.hasten()
            return
        self._going_down = True
        self._interrupted_by = number
        play.cancel()
        self.console.print("Stopping everything; a second signal stops faster.")

    async def _play(self) -> DemoVerdict:
        async with AsyncExitStack() as stage:
            try:
                verdict = await self._play_on(stage)
            finally:
                self._going_down = True
            self.console.print("Stopping everything.")
        return verdict

    async def _play_on(self, stage: AsyncExitStack) -> DemoVerdict:
        """Play until the time is over. Everything that was set up is left on ``stage``, which takes it down."""
        await stage.enter_async_context(self._receiver)
        self.console.print(f"Starting Carillon in {self.options.data_dir}", highlight=False, markup=False)
        await stage.enter_async_context(self._system)
        access = await asyncio.to_thread(prepare_access)
        self._receiver.secrets = access.webhook_secrets
        clients = {
            slug: await stage.enter_async_context(ApiClient(base_url=self._system.urls["web"], api_key=key))
            for slug, key in access.api_keys.items()
        }
        jobs = await stage.enter_async_context(self._jobs_created(clients))
        await self._show(self._board(jobs, access), clients)
        return await self._judge(jobs, clients)

    @asynccontextmanager
    async def _jobs_created(self, clients: Clients) -> AsyncIterator[list[CreatedJob]]:
        """The sample jobs, created over the API. Jobs that an earlier demo left are deleted first, these at the end."""
        await _delete_jobs(clients)
        try:
            await self._warm_up(clients)
            yield [await self._create(sample, clients) for sample in sample_jobs(now=datetime.now(UTC))]
        finally:
            try:
                await _delete_jobs(clients)
            except ApiError as error:
                self.console.print(
                    f"The sample jobs stay, to be deleted by the next demo: {error}", markup=False
                )

    async def _warm_up(self, clients: Clients) -> None:
        """Wait for a first webhook, and forget it. Raises ``DemoError`` when none arrives."""
        await self._create(WARM_UP, clients)
        try:
            async with asyncio.timeout(WARM_UP_TIMEOUT.total_seconds()):
                await self._receiver.first_delivery.wait()
        except TimeoutError:
            raise DemoError(
                f"No webhook arrived within {WARM_UP_TIMEOUT.total_seconds():g} s of its creation: "
                f"see {self._system.log_path}."
            ) from None
        self._receiver.deliveries.clear()

    async def _create(self, sample: SampleJob, clients: Clients) -> CreatedJob:
        self._receiver.expect(sample)
        document = sample.document(receiver_url=self._receiver.url)
        return CreatedJob.from_answer(sample, await clients[sample.tenant].create_job(document))

    def _board(self, jobs: Sequence[CreatedJob], access: Access) -> Board:
        urls = self._system.urls
        where = {
            "Admin": f"{urls['web']}/admin/  user {ADMIN}, password {access.admin_password}",
            "API": f"{urls['web']}/api/docs",
            "Flower": f"{urls.get('flower')}  user admin, password in {self.options.data_dir}/flower-password",
            "Logs": f"{self._system.log_path.parent}",
        }
        return Board(
            jobs=jobs,
            deliveries=self._receiver.deliveries,
            started_at=datetime.now(UTC),
            lasts=self.options.lasts,
            access=where,
        )

    async def _show(self, board: Board, clients: Clients) -> None:
        """Show how it goes until the time is over. Raises ``DemoError`` when Carillon ends before that."""
        parts = [self._draw(board), _announce(board, clients), self._system.watch()]
        tasks = [asyncio.create_task(part) for part in parts]
        timeout = self.options.lasts.total_seconds() if self.options.lasts else None
        try:
            done, _ = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            for task in done:  # the tasks end only by a failure
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _draw(self, board: Board) -> None:
        """The live table; where there is no terminal, a line now and then."""
        if not self.console.is_terminal:
            for what, where in board.access.items():
                self.console.print(f"{what}: {where}", highlight=False, markup=False, soft_wrap=True)
            while True:
                await asyncio.sleep(LINE_EVERY_SECONDS)
                self.console.print(plain_line(board, now=datetime.now(UTC)), highlight=False)
        with Live(console=self.console, auto_refresh=False) as live:
            while True:
                live.update(live_view(board, now=datetime.now(UTC)), refresh=True)
                await asyncio.sleep(REDRAW_SECONDS)

    async def _judge(self, jobs: Sequence[CreatedJob], clients: Clients) -> DemoVerdict:
        horizon = datetime.now(UTC) - GRACE
        deliveries = tuple(self._receiver.deliveries)
        refused = [job for job in jobs if job.sample.reception is Reception.REFUSED]
        dead_letters = {job.id: await clients[job.sample.tenant].dead_letters(job.id) for job in refused}
        code, said = await self._system.audit()
        return judge(
            jobs,
            deliveries=deliveries,
            dead_letters=dead_letters,
            horizon=horizon,
            ledger=LedgerAudit(passed=code == 0, says=said),
        )


async def _delete_jobs(clients: Clients) -> None:
    for client in clients.values():
        await client.delete_all_jobs()


async def _announce(board: Board, clients: Clients) -> None:
    """Keep ``board.upcoming`` fresh. While the API is away, its last answers stay."""
    while True:
        for job in board.jobs:
            try:
                board.upcoming[job.id] = await clients[job.sample.tenant].upcoming(job.id)
            except ApiError:
                break
        await asyncio.sleep(ASK_EVERY_SECONDS)
