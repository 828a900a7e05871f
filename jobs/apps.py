from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"
    verbose_name = "Carillon"

    def ready(self) -> None:
        from jobs.conf import engine_settings
        from jobs.handlers import registry
        from jobs.store.trail.actor import sign_statements

        sign_statements()
        settings = engine_settings()
        registry.load(settings.handler_modules, disabled=settings.disabled_types)
