import { Fault } from '../../foundation/fault.ts';
import { ChannelFault } from '../channels/channel-fault.ts';
import { Unsolved } from './solve-thread.ts';

// A conflict of many packages can be explained at any length.
const maxLines = 60;
const maxCharacters = 6000;

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
    case 'memory':
      return new Fault(
        'bad-request',
        `The environment requires more than the ${Math.round(memoryBytes / 2 ** 20)} MiB of memory that the solver may use: give versions to more packages, or ask the operator to raise conda.solve.memory`,
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

function explanationOf(text: string): string {
  return text
    .replace(/^Cannot solve the request because of: /, '')
    .slice(0, maxCharacters)
    .split('\n')
    .slice(0, maxLines)
    .join('\n')
    .trim();
}

function listOf(channels: readonly string[]): string {
  return `the channel${channels.length === 1 ? '' : 's'} ${channels.join(', ')}`;
}
