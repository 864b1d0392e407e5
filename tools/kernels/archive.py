# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernels out of Debian's archive, through apt with settings of its own, from where this machine gets its Debian."""

import os
import re
import shutil
import subprocess
from pathlib import Path

META = "linux-image-cloud-amd64"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SETTINGS = """\
Dir::State "{folder}/state";
Dir::State::status "/dev/null";
Dir::Cache "{folder}/cache";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "/dev/null";
APT::Architecture "amd64";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::Retries "3";
"""


class ArchiveError(Exception):
    pass


class Archive:
    def __init__(self, folder: Path, suites: list[str]) -> None:
        self.folder = folder
        self.env = {**os.environ, "APT_CONFIG": str(folder / "apt.conf"), "LC_ALL": "C"}
        for part in ("state/lists/partial", "cache/archives/partial", "debs"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        mirror = self.mirror()
        (folder / "apt.conf").write_text(SETTINGS.format(folder=folder))
        (folder / "sources.list").write_text(
            "".join(f"deb [signed-by={KEYRING}] {mirror} {suite} main\n" for suite in suites)
        )
        self.run("apt-get", "update", "-qq")

    @staticmethod
    def mirror() -> str:
        """The address that this machine's own apt has for Debian."""
        command = ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", "Origin: Debian",
                   "Label: Debian"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            return line.strip()
        raise ArchiveError("apt has no Debian in its sources, or no lists yet: run apt-get update on a Debian")

    def run(self, *command: str, cwd: Path | None = None) -> str:
        done = subprocess.run(command, env=self.env, cwd=cwd, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ArchiveError(f"{' '.join(command[:2])} failed: {done.stderr.strip()[-600:]}")
        return done.stdout

    def newest(self, suites: list[str]) -> tuple[str, str]:
        """The suite with the highest version of the cloud kernel, and that version."""
        best = ("", "")
        for line in self.run("apt-cache", "madison", META).splitlines():
            _, version, where = (field.strip() for field in line.split("|"))
            suite = where.split()[1].split("/")[0]
            newer = ["dpkg", "--compare-versions", version, "gt", best[1] or "0"]
            if suite in suites and subprocess.run(newer, check=False).returncode == 0:
                best = (suite, version)
        if not best[1]:
            raise ArchiveError(f"there is no {META} in {' '.join(suites)}")
        return best

    def depends(self, package: str, version: str, wanted: str) -> str:
        for line in self.run("apt-cache", "show", f"{package}={version}").splitlines():
            if line.startswith("Depends:"):
                found = re.search(rf"({wanted}[^ ,]*)", line)
                return found[1] if found else ""
        return ""

    def kernel(self, suites: list[str]) -> tuple[Path, str, str]:
        """Downloads and unpacks the newest cloud kernel of these suites: its image, its version, the suite."""
        suite, version = self.newest(suites)
        package = self.depends(META, version, r"linux-image-\d")
        # Newer ones have the image in a package of its own.
        package = self.depends(package, version, r"linux-binary-\d") or package
        folder = self.folder / "debs" / f"{package}_{version}"
        if not (folder / "image").is_file():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            self.run("apt-get", "download", f"{package}={version}", cwd=folder)
            for deb in folder.glob("*.deb"):
                self.run("dpkg-deb", "-x", str(deb), str(folder / "tree"))
            images = sorted((folder / "tree").rglob("vmlinuz*"))
            if not images:
                raise ArchiveError(f"{package} holds no vmlinuz")
            shutil.copy(images[0], folder / "image")
            shutil.rmtree(folder / "tree")
        return folder / "image", version, suite
