import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { Fault } from '../../../src/foundation/fault.ts';
import { type ChannelScript, startScriptedChannel } from '../../world/scripted-channel.ts';
import { listed, type SolverWorldOptions, solverFor } from '../solving/solver-world.ts';

/** Starts a channel that answers by a script, and a solver that reads it. */
export async function start(
  t: TestContext,
  script: ChannelScript,
  options: SolverWorldOptions = {},
) {
  const channel = await startScriptedChannel(t, script);
  const world = await solverFor(t, [listed(channel.url)], options);
  const lines: string[] = [];
  const solve = async (specs = ['tool'], signal = AbortSignal.timeout(300_000)) => {
    const solution = await world.solver.solve(
      {
        ...{ specs, subdir: 'linux-64', virtualPackages: [] },
        channels: [`${channel.url}/c`],
      },
      { signal, log: line => lines.push(line) },
    );
    return solution.map(({ name, version }) => `${name} ${version}`);
  };
  return { channel, solve, lines, world };
}

/** Serves files below `/c/linux-64/`, and nothing else. */
export const files =
  (served: ReadonlyMap<string, Uint8Array | string>): ChannelScript =>
  ({ url }) =>
    served.get(url.replace('/c/linux-64/', ''));

/** Asserts that the work ends with a `Fault` (400) with such a message. */
export async function refused(work: Promise<unknown>, pattern: RegExp) {
  await assert.rejects(work, (error: unknown) => {
    assert.ok(error instanceof Fault, String(error));
    assert.equal(error.apiStatus, 400);
    assert.match(error.message, pattern);
    return true;
  });
}
