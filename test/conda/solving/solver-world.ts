import type { TestContext } from 'node:test';
import {
  type ChannelSettings,
  hostsOfChannels,
} from '../../../src/conda/channels/channel-settings.ts';
import { createChannelAccess } from '../../../src/conda/channels/create-channel-access.ts';
import { createCondaSolver } from '../../../src/conda/solving/create-conda-solver.ts';
import { withoutReach } from '../../../src/upstream/registry-settings.ts';
import { createTransport } from '../../../src/upstream/transport/transport.ts';

const timeouts = { connectMs: 5000, headersMs: 5000, idleMs: 5000 };

/** Access to channels, of which those at `url` are listed with their closed address. */
export function accessTo(t: TestContext, channels: readonly ChannelSettings[]) {
  const hosts = hostsOfChannels(channels);
  const transport = createTransport(hosts, timeouts);
  const guarded = createTransport(withoutReach(hosts), timeouts);
  t.after(() => Promise.all([transport.close(), guarded.close()]));
  const retry = { attempts: 2, firstDelayMs: 10, longestDelayMs: 100 };
  return createChannelAccess({ channels, transport, guarded, retry });
}

export function solverFor(t: TestContext, url: string) {
  const listed = { keys: [], url, mirrors: [], allowPrivateAddress: true };
  const solver = createCondaSolver({ channels: accessTo(t, [listed]) });
  t.after(() => solver.close());
  return solver;
}
