import { Fault } from '../../../foundation/fault.ts';

/** The packages of an image require a builder, which only their solution or their archives have shown. */
export class BuilderRequired extends Error {
  /** What requires it, such as `the link script of fonts-conda-ecosystem`. */
  readonly reasons: readonly string[];

  constructor(reasons: readonly string[]) {
    super(`a builder is required for ${reasons.join(', ')}`);
    this.reasons = reasons;
  }
}

/** Returns the failure to get a builder with what requires one; every other failure as it is. */
export function withReasons(error: unknown, reasons: readonly string[] = []): unknown {
  const isAbout =
    error instanceof Fault && (error.kind === 'not-provided' || error.kind === 'unauthorized');
  if (!isAbout || reasons.length === 0) return error;
  return error.retold(`${sentence(reasons)} a builder. ${error.message}`);
}

/** Returns the beginning of a sentence: `'condaOpts.commands' and the 'pip' packages require`. */
export function sentence(reasons: readonly string[]): string {
  const list = new Intl.ListFormat('en').format(reasons);
  const words = `${list.charAt(0).toUpperCase()}${list.slice(1)}`;
  return `${words} ${reasons.length === 1 ? 'requires' : 'require'}`;
}
