# SPDX-License-Identifier: MIT OR Apache-2.0
"""Proves the gate: applies every change of changes.py to a copy of the checkout, builds the library there, and asks the
step that is meant for it. The baseline is the unchanged checkout of the same minute, so that this judges the gate and
not the checkout."""

import re
import shutil
from pathlib import Path

import changes
import dumps
import library
import make_layout
import steps

NOT_MEASURED = "not measured"
# The steps that hold something against the baseline.
COMPARING = "cdefgl"


class EditError(Exception):
    """An edit of changes.py finds nothing to change."""


def copy_tree(root: Path, target: Path) -> None:
    """A copy of what the library is built from."""
    for part in library.PARTS:
        source = root / part
        if source.is_dir():
            shutil.copytree(source, target / part)
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target / part)


def apply(tree: Path, edits: list[tuple[str, str, str]]) -> None:
    """Applies edits; each has to change something."""
    for files, pattern, replacement in edits:
        hits = 0
        for path in sorted(path for glob in files.split() for path in tree.glob(glob)):
            text = path.read_text()
            new, count = re.subn(pattern, replacement, text)
            if count:
                path.write_text(new)
                hits += count
        if not hits:
            raise EditError(f"'{pattern}' is nowhere in {files}")


class SelfTest:
    """One run over all changes."""

    def __init__(self, root: Path, builder: library.Builder, clean: steps.Subject, program: Path, folder: Path) -> None:
        self.builder, self.clean, self.program, self.folder = builder, clean, program, folder
        # One copy for the whole run, so that work on the checkout meanwhile changes nothing.
        self.pristine = folder / "pristine"
        copy_tree(root, self.pristine)
        self.how = library.recipe(self.pristine, folder / "cmake")
        for name in dumps.FILES:
            clean.dump(name)

    def tree(self, change: changes.Change) -> Path:
        """Where a change's copy of the checkout lies."""
        return self.folder / re.sub(r"\W+", "-", change.name)

    def subject(self, change: changes.Change, baseline: Path) -> steps.Subject:
        """Builds the library of a change; the subject to judge."""
        tree = self.tree(change)
        copy_tree(self.pristine, tree)
        apply(tree, change.edits)
        # What whoever made the change would do; headers that it cannot read are for the layout step to refuse.
        make_layout.main([str(tree / "capi")], quiet=True)
        how = self.how
        if any(files.startswith("cmake/") for files, _, _ in change.edits):
            how = library.recipe(tree, tree / "build")
        return steps.Subject(
            tree,
            lambda: self.builder.library(tree, tree / "out", how, change.flag),
            self.builder,
            baseline,
            tree / "dumps",
            [self.program],
        )

    def judge_break(self, change: changes.Change) -> steps.Finding:
        """(verdict, reasons): refused only if the step that is meant for it refuses."""
        return steps.judge(self.subject(change, self.clean.fresh), change.step)

    def judge_control(self, change: changes.Change) -> steps.Finding:
        """(verdict, reasons): accepted only if every step accepts, after a re-baseline where it asks for one."""
        subject = self.subject(change, self.clean.fresh)
        verdicts = {letter: steps.judge(subject, letter) for letter in steps.STEPS}
        allowed = {steps.ACCEPTED} | ({steps.GROWTH} if change.rebaseline else set())
        for letter, (verdict, reasons) in verdicts.items():
            if verdict not in allowed:
                return verdict, [f"step {letter}:", *reasons]
        if not change.rebaseline:
            return steps.ACCEPTED, []
        if all(verdict == steps.ACCEPTED for verdict, _ in verdicts.values()):
            return steps.REFUSED, ["it was accepted without the re-baseline that it needs"]
        baseline = subject.fresh.parent / "baseline"
        baseline.mkdir()
        for name in dumps.FILES:
            shutil.copyfile(subject.dump(name), baseline / name)
        again = steps.Subject(
            subject.tree, lambda: subject.library, self.builder, baseline, subject.fresh, subject.programs
        )
        for letter in COMPARING:
            verdict, reasons = steps.judge(again, letter)
            if verdict != steps.ACCEPTED:
                return verdict, [f"step {letter} after the re-baseline:", *reasons]
        return steps.ACCEPTED, []

    def row(self, change: changes.Change, kind: str) -> dict[str, str]:
        """Judges one change; returns its row and prints it."""
        try:
            verdict, reasons = (self.judge_break if kind == "break" else self.judge_control)(change)
        except (EditError, library.BuildError, OSError) as error:
            verdict, reasons = NOT_MEASURED, [str(error)]
        expected = steps.REFUSED if kind == "break" else steps.ACCEPTED
        where = f"step {change.step} {steps.STEPS[change.step][0]}" if kind == "break" else "every step"
        mark = "" if verdict == expected else "  <-- WRONG"
        print(f"  {kind:<7} {change.name}: {verdict} ({where}){mark}", flush=True)
        if verdict == expected:
            shutil.rmtree(self.tree(change), ignore_errors=True)
        else:
            print("\n".join(f"      {reason}" for reason in reasons))
        reason = reasons[0] if reasons else ""
        step = change.step or "all"
        return {"name": change.name, "kind": kind, "step": step, "verdict": verdict, "reason": reason}


def run(
    root: Path, builder: library.Builder, clean: steps.Subject, program: Path, folder: Path, only: str
) -> list[dict[str, str]]:
    """Runs all changes whose names hold `only`; returns their rows."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    test = SelfTest(root, builder, clean, program, folder)
    groups = (("break", changes.BREAKS), ("control", changes.CONTROLS))
    return [test.row(change, kind) for kind, group in groups for change in group if only in change.name]
