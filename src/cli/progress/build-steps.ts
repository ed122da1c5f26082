import type { PartProgress } from './bars.ts';
import { parseLogLine, type StepLine } from './log-line.ts';

/** A step of a build, as its log reports it. Times are ms since the epoch. */
export interface BuildStep {
  readonly number: number;
  readonly name: string;
  state: 'running' | 'done' | 'cached' | 'failed' | 'cancelled';
  /** When it began, by the clock of this machine. */
  beganMs: number;
  /** How long it ran, after its end. */
  seconds: number;
  /** Its last output or progress. */
  lastLine: string | undefined;
  /** Its downloads and other parts that go on, by their ids. */
  readonly parts: Map<string, PartProgress>;
}

// What a log says of more parts is not shown.
const maxParts = 100;

/** The state of a build, from the lines of its log. */
export class BuildSteps {
  readonly #steps = new Map<number, BuildStep>();
  #isAfterText = false;
  /** Messages of the service, and the summary of a failure: lines that belong to no step. */
  readonly messages: string[] = [];
  readonly warnings: string[] = [];

  /** The steps in the order of their numbers. */
  get steps(): readonly BuildStep[] {
    return [...this.#steps.values()];
  }

  /** Reads the next line of the log, without its line break. */
  take(text: string, nowMs: number): void {
    const line = parseLogLine(text);
    if (line.step === undefined) {
      if (text.trim() === '') return;
      this.messages.push(text);
      this.#isAfterText = true;
      return;
    }
    // A build that starts again, for instance on another builder, numbers its steps from 1 again.
    if (line.step === 1 && this.#isAfterText && line.kind === 'text') this.#steps.clear();
    this.#isAfterText = false;
    const step = this.#steps.get(line.step);
    if (step) this.#change(step, line, nowMs);
    else if (line.kind === 'text' || line.kind === 'progress') {
      this.#begin(line.step, line.text, nowMs);
    }
  }

  #begin(number: number, name: string, beganMs: number): void {
    this.#steps.set(number, {
      ...{ number, name, beganMs, state: 'running', seconds: 0, lastLine: undefined },
      parts: new Map(),
    });
  }

  #change(step: BuildStep, line: StepLine, nowMs: number): void {
    if (['cached', 'done', 'error', 'cancelled'].includes(line.kind)) step.parts.clear();
    switch (line.kind) {
      case 'cached':
        step.state = 'cached';
        return;
      case 'done':
        step.state = 'done';
        step.seconds = line.seconds;
        return;
      case 'error':
      case 'cancelled':
        step.state = line.kind === 'error' ? 'failed' : 'cancelled';
        step.seconds = Math.max(0, nowMs - step.beganMs) / 1000;
        return;
      case 'warning':
        this.warnings.push(line.text);
        return;
      case 'output':
        step.lastLine = line.text;
        // The step may have run for a while before the log reported it.
        step.beganMs = Math.min(step.beganMs, nowMs - line.seconds * 1000);
        return;
      case 'progress': {
        const { parts } = step;
        const { part, text } = line;
        step.lastLine = text;
        if (part.isDone) parts.delete(part.id);
        else if (parts.has(part.id) || parts.size < maxParts) parts.set(part.id, part);
        return;
      }
      case 'text':
        if (line.text === step.name) step.state = 'running';
        else step.lastLine = line.text;
    }
  }
}
