/** A server without root starts a builder without root, and builds with it. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmod, chown, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { build, connect } from '../../src/buildkit/index.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { startDaemon, waitForLine } from '../world/daemon.ts';
import { startRegistry } from '../world/registry.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { buildkitDirectory, requireCommand } from '../world/tools.ts';

const project = join(import.meta.dirname, '../..');
const uid = 61_234;

// The user exists in this namespace only, and can reach the project in any folder.
const enterScript = `
set -e
cd "$1"
for name in passwd subuid subgid; do mount --bind $name /etc/$name; done
mount --bind "$2" project
mount --bind "$3" node
mount --bind "$4" buildkit
exec setpriv --reuid ${uid} --regid ${uid} --clear-groups --inh-caps=-all \\
  env -i HOME="$1/home" PATH="$1/buildkit:$PATH" node/node --input-type=module -e "$5" "$1"
`;

const program = `
const directory = process.argv[1];
const { findBuilders } = await import(directory + '/project/src/builds/builder/find-builders.ts');
const found = findBuilders({
  configured: [], usual: [], folders: [], plainHttp: [],
  directory: directory + '/home/buildkit',
  log: { info() {}, warn: console.log, error: console.log },
});
process.once('SIGTERM', () => found.close());
console.log('found', (await found.find({ name: 'user one', customer: 'known', isAlone: false }))[0].address);
`;

test('a server without root has its own builder', async () => {
  for (const name of ['rootlesskit', 'newuidmap', 'runc']) requireCommand(name);
  await using registry = await startRegistry();
  const base = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference ?? '';
  await using directory = await makeTempDir('rootless');
  await chmod(directory.path, 0o755);
  for (const name of ['home', 'project', 'node', 'buildkit']) await mkdir(directory.join(name));
  await chown(directory.join('home'), uid, uid);
  const passwd = await readFile('/etc/passwd', 'utf8');
  const own = `builder:x:${uid}:${uid}::${directory.join('home')}:/bin/sh\n`;
  await writeFile(directory.join('passwd'), passwd + own);
  for (const name of ['subuid', 'subgid']) {
    await writeFile(directory.join(name), 'builder:200000:65536\n');
  }
  const node = dirname(process.execPath);
  await using server = startDaemon('unshare', [
    ...['--mount', 'sh', '-c', enterScript, 'sh', directory.path, project, node],
    ...[buildkitDirectory(), program],
  ]);
  const [, address = ''] = await waitForLine(server, /^found (unix:\S+)$/);
  const client = connect(address);
  try {
    await build(client, {
      dockerfile: `FROM ${base}\nRUN id -u > /who && test "$(cat /who)" = 0 && test "$(cat /proc/self/oom_score_adj)" = 500\n`,
      exporters: [{ type: 'image', name: `${registry.host}/made:1`, push: true }],
    });
    const made = await fetch(`${registry.url}/v2/made/manifests/1`, {
      headers: { accept: 'application/vnd.oci.image.manifest.v1+json' },
    });
    assert.equal(made.status, 200);
  } finally {
    client.close();
  }
  server.process.kill('SIGTERM');
  await once(server.process, 'exit');
  assert.equal(server.process.exitCode, 0, server.output());
});
