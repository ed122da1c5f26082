/** A line of a log. */
export interface LogLine {
  /** Counted from 1. */
  readonly number: number;
  /** Without colours. */
  readonly text: string;
  /** With the sequences that colour text on a terminal, and no others. */
  readonly coloured: string;
  /** True for a line of which only the beginning is here. */
  readonly isCut: boolean;
}

/** A step as the text of the log shows it. */
export interface LoggedStep {
  readonly number: number;
  readonly name: string;
  readonly state: 'running' | 'done' | 'cached' | 'failed' | 'cancelled';
  /** How long it took in ms; undefined where the log does not say it. */
  readonly spentMs: number | undefined;
  /** Its first line in the log. */
  readonly line: number;
}

/** A log by its lines. Reading some of them does not read the whole log. */
export interface LogLines {
  /** Number of lines. */
  readonly total: number;
  /** Steps of the last attempt, in the order of their numbers. */
  readonly steps: readonly LoggedStep[];
  /** False if there are so many steps, or they write in turns so often, that some of their lines are in the log only. */
  readonly hasAllOfSteps: boolean;
  /** Returns the number of lines of a step. */
  countOf(step: number): number;
  /**
   * Returns the lines from one position to before another, both counted from 0.
   *
   * @param step counts and returns only the lines of this step
   */
  read(from: number, to: number, step?: number): Promise<readonly LogLine[]>;
  /** Returns the first lines that contain a text, in upper or lower case. */
  search(text: string, most: number): Promise<readonly LogLine[]>;
}
