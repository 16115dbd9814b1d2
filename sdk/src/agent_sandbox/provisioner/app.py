"""Builds the provisioner: its connection to the Kubernetes API, its probes, and the round that it makes."""

from __future__ import annotations

from agent_sandbox.provisioner.ports import Objects
from agent_sandbox.provisioner.setting_up import SettingUp
from agent_sandbox.provisioner.settings import ProvisionerSettings
from shared import logs
from shared.metrics import DECLARED, Book
from shared.probes import Health, probed
from shared.service import Stop

log = logs.get(__name__)


async def run(settings: ProvisionerSettings, objects: Objects, stop: Stop) -> None:
    """Look at everything again and again until `stop` is set."""
    setting_up = SettingUp(objects, settings)
    health, book = Health(settings.ready_file), Book(DECLARED["provisioner"])
    health.require("cluster", lambda: setting_up.problem)
    probes = {"address": settings.probes, "url_file": settings.probes_url_file}
    async with probed(health, book, **probes):
        health.begin()
        said = ""
        while not stop.is_set:
            await setting_up.look()
            if setting_up.problem != said:
                said = setting_up.problem
                log.info("cluster.looked_at", missing=said or "nothing")
            await stop.wait(settings.every_s if not said else min(settings.every_s, 1.0))
