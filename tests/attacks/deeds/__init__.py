"""The deeds done to a tenant whose every secret is a canary: each way in which a value might leak."""

from collections.abc import Callable

from tests.attacks.deeds.executions import (
    let_a_handler_print,
    let_handlers_fail,
    send_webhooks,
    tell_of_the_dead,
)
from tests.attacks.deeds.messages import send_bad_messages, work_from_the_broker
from tests.attacks.deeds.requests import (
    ask_for_everything,
    break_the_database_under_the_api,
    fail_to_log_in,
    look_into_the_console,
    pull,
)
from tests.attacks.deeds.world import World

DEEDS: tuple[Callable[[World], None], ...] = (
    send_webhooks,
    tell_of_the_dead,
    let_handlers_fail,
    let_a_handler_print,
    break_the_database_under_the_api,
    work_from_the_broker,
    send_bad_messages,
    fail_to_log_in,
    pull,
    ask_for_everything,
    look_into_the_console,
)
