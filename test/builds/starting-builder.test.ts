import assert from 'node:assert/strict';
import { test } from 'node:test';
import { socketError } from '../../src/builds/builder/builder-refusals.ts';
import { runBuilder } from '../../src/builds/builder/own/builder-process.ts';
import { createLogger } from '../../src/foundation/telemetry.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { requireCommand } from '../world/tools.ts';

/** Makes its socket long before it listens there. */
const late = `
  socket(my $server, PF_UNIX, SOCK_STREAM, 0) or die;
  bind($server, sockaddr_un($ARGV[0])) or die;
  select(undef, undef, undef, 0.5);
  listen($server, 5) or die;
  sleep 60;`;

test('a builder has started when it listens, not when its socket is there', async () => {
  await using directory = await makeTempDir('starting');
  const folder = directory.path;
  const socket = directory.join('buildkitd.sock');
  const command = [requireCommand('perl'), '-MSocket', '-e', late, socket];
  const builder = await runBuilder({ command, folder, env: {}, log: createLogger('silent') });
  assert.equal(await socketError(socket), undefined);
  assert.equal(builder.hasEnded(), false);
  await builder.stop(child => child.kill());
});
