import { Fault } from '../../foundation/fault.ts';
import type { LogWriter } from './build-logs.ts';
import { asStep } from './build-step.ts';

/** What a step writes into the log. */
export interface StepOutput {
  /** Writes text of whole lines. */
  write(text: string): void;
  /** Writes how far a part of the step is, in the form that BuildKit uses. */
  progress(line: string): void;
}

/** Runs a piece of work as a step of a build. */
export type RunStep = <T>(name: string, work: (output: StepOutput) => Promise<T>) => Promise<T>;

type Log = Pick<LogWriter, 'write' | 'step'>;

/** The number of the last step in a log. */
export interface StepCount {
  last: number;
}

/**
 * Records steps with numbers, whose lines in the log are as those of BuildKit (`--progress=plain`).
 *
 * @param count shared with all other steps of the log
 */
export function numberedSteps(log: Log, count: StepCount = { last: 0 }): RunStep {
  return async (name, work) => {
    count.last += 1;
    const number = count.last;
    const began = performance.now();
    const seconds = () => (performance.now() - began) / 1000;
    const progress = (line: string) => log.write(`#${number} ${line}\n`);
    const write = (text: string) => {
      const time = seconds().toFixed(3);
      for (const line of text.trimEnd().split('\n')) progress(`${time} ${line}`);
    };
    progress(name);
    try {
      const result = await asStep(log, name, () => work({ write, progress }), number);
      progress(`DONE ${seconds().toFixed(1)}s\n`);
      return result;
    } catch (error) {
      // The end of the log has the whole message.
      const [reason] = error instanceof Fault ? error.message.split('\n') : [];
      progress(reason === undefined ? 'CANCELED\n' : `ERROR: ${reason}\n`);
      throw error;
    }
  };
}
