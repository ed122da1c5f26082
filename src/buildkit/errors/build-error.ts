/** Which part caused the failure; README.md has the table. */
export type BuildErrorKind =
  | 'exec'
  | 'dockerfile'
  | 'base'
  | 'push'
  | 'session'
  | 'unavailable'
  | 'cancelled'
  | 'timeout'
  | 'other';

/** The place in the Dockerfile that caused a failure. */
export interface SourceLine {
  readonly file: string;
  /** Counted from 1. */
  readonly line: number;
  /** First line of the source text at this place. */
  readonly text?: string;
}

export interface BuildErrorOptions extends ErrorOptions {
  readonly exitCode?: number | undefined;
  readonly step?: string | undefined;
  readonly source?: SourceLine | undefined;
  readonly lastLogLines?: readonly string[];
}

/** A build, or another request to a builder, that failed. Contains no secret and no password of the build. */
export class BuildError extends Error {
  readonly kind: BuildErrorKind;
  /** Exit code of the process of a RUN, for kind `exec`. */
  readonly exitCode: number | undefined;
  /** Name of the step that failed, such as `[2/3] RUN make`. */
  readonly step: string | undefined;
  readonly source: SourceLine | undefined;
  /** The last lines that the failed step wrote, as a terminal shows them, oldest first; empty if it wrote none. */
  readonly lastLogLines: readonly string[];

  constructor(kind: BuildErrorKind, message: string, options: BuildErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'BuildError';
    this.kind = kind;
    this.exitCode = options.exitCode;
    this.step = options.step;
    this.source = options.source;
    this.lastLogLines = options.lastLogLines ?? [];
  }
}
