import assert from 'node:assert/strict';
import { realpathSync } from 'node:fs';
import { test } from 'node:test';
import { runProgram } from '../world/program.ts';
import { requireCommand } from '../world/tools.ts';

const script = `
for path; do mount --bind /dev/null "$path"; done
exec "$NODE" scripts/buildkit.ts`;

test('npm run buildkit installs no package on the machine before somebody allows it', async () => {
  // Hidden from this process alone.
  const hidden = [
    ...new Set(['runc', 'slirp4netns'].map(name => realpathSync(requireCommand(name)))),
  ];
  const { code, stdout, stderr } = await runProgram(
    [requireCommand('unshare'), '--mount', 'sh', '-ec', script, 'sh', ...hidden],
    { env: { PATH: process.env.PATH ?? '', NODE: process.execPath } },
  );
  assert.equal(code, 1, stdout);
  assert.doesNotMatch(stdout, /Installing/);
  assert.match(
    stderr,
    /^This machine lacks runc: run 'apt-get install -y --no-install-recommends runc' as root, or let 'npm run buildkit -- --yes' do it\n$/,
  );
});
