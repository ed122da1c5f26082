import { Fault } from '../../foundation/fault.ts';
import { ChannelFault } from '../channels/channel-fault.ts';
import { Unsolved } from './solve-thread.ts';
import { withPrefixes } from './solver-spec.ts';

// A conflict of many packages can be explained at any length.
const maxLines = 60;
const maxCharacters = 6000;
const maxPanicCharacters = 200;

/** Returns the fault for an environment that was not solved; another error as it is. */
export function faultOfUnsolved(
  error: unknown,
  channels: readonly string[],
  memoryBytes: number,
): unknown {
  if (!(error instanceof Unsolved)) return error;
  const options = { phase: 'build', cause: error } as const;
  switch (error.reason) {
    case 'disk':
    case 'channel':
      return new ChannelFault(
        `The repository data of a channel cannot be used: ${error.message}`,
        undefined,
        { cause: error },
      );
    case 'unreadable':
      return new Fault(
        'internal',
        `The server cannot read its repository data (${error.message}): try again later, or ask the operator to check the data directory`,
        { phase: 'store', cause: error },
      );
    case 'memory':
      return new Fault(
        'bad-request',
        `The environment requires more than the ${Math.round(memoryBytes / 2 ** 20)} MiB of memory that the solver may use: give versions to more packages, or ask the operator to raise conda.solve.memory`,
        options,
      );
    case 'fault':
      return new Fault(
        'bad-request',
        `The solver broke down on this environment (${panicIn(error.message)}): give versions to more packages, or ask the operator to set builds.conda to buildkit`,
        options,
      );
    case 'solver':
      return new Fault(
        'bad-request',
        `The environment has no solution with the packages of ${listOf(channels)}: ${explanationOf(error.message)}`,
        options,
      );
  }
}

/** Returns true for the fault of an environment without a solution whose explanation names a package. */
export function isUnsolvedFor(fault: unknown, name: string): boolean {
  const { cause } = fault instanceof Fault ? fault : {};
  return cause instanceof Unsolved && cause.reason === 'solver' && cause.message.includes(name);
}

/** Returns the reason of a panic without its place in the code and its stack. */
function panicIn(given: string): string {
  const text = plainText(given);
  const [first = '', second = ''] = text.split('\n');
  const reason = first.startsWith('panicked at') && second !== '' ? second : first;
  return reason.slice(0, maxPanicCharacters).trim();
}

function explanationOf(text: string): string {
  return withPrefixes(plainText(text).slice(0, 4 * maxCharacters))
    .replace(/^Cannot solve the request because of: /, '')
    .slice(0, maxCharacters)
    .split('\n')
    .slice(0, maxLines)
    .join('\n')
    .trim();
}

/** Returns a text without what a terminal obeys: channels write anything into the names of packages. */
function plainText(text: string): string {
  return text.replace(/(?!\n)[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu, '?');
}

function listOf(channels: readonly string[]): string {
  return `the channel${channels.length === 1 ? '' : 's'} ${channels.join(', ')}`;
}
