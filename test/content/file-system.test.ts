/** Which file systems may have the data directory. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { unsafeFileSystem } from '../../src/storage/directory/file-system.ts';
import { runProgram } from '../world/program.ts';
import { serverCommand } from '../world/server-command.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { requireCommand } from '../world/tools.ts';

const root = '22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n';
const overlay = (point: string, options: string) =>
  `31 22 0:35 / ${point} rw,relatime - overlay overlay rw,lowerdir=/l,upperdir=/u,${options}\n`;
const overlayType = 0x794c7630;

test('file systems of networks are unsafe, whatever the sign of their type', () => {
  const facts = { mounts: '', path: '/data' };
  assert.match(unsafeFileSystem({ ...facts, type: 0x6969 }) ?? '', /^NFS, /);
  assert.match(unsafeFileSystem({ ...facts, type: 0xff534d42 }) ?? '', /^SMB, /);
  assert.match(unsafeFileSystem({ ...facts, type: 0xff534d42 | 0 }) ?? '', /^SMB, /);
  for (const type of [
    0xef53,
    0x58465342,
    0x9123683e,
    0x01021994,
    0x65735546,
    0x01021997,
    overlayType,
  ]) {
    assert.equal(unsafeFileSystem({ ...facts, type }), undefined, type.toString(16));
  }
});

test('an overlay is unsafe with the option volatile of the mount that has the directory', () => {
  const type = overlayType;
  const isUnsafe = (mounts: string, path: string) =>
    unsafeFileSystem({ type, mounts, path }) !== undefined;
  const both = `${root}${overlay('/data', 'volatile')}${overlay('/other', 'index=off')}`;
  assert.ok(isUnsafe(both, '/data'));
  assert.ok(isUnsafe(both, '/data/below'));
  assert.ok(isUnsafe(overlay('/', 'uuid=on,fsync=volatile'), '/data'));
  assert.ok(!isUnsafe(both, '/data-2'));
  assert.ok(!isUnsafe(both, '/other'));
  assert.ok(!isUnsafe(`${both}${overlay('/data', 'index=off')}`, '/data'), 'the later mount');
  assert.ok(isUnsafe(`${root}${overlay('/my\\040data', 'volatile')}`, '/my data'));
});

test('a server does not start on an overlay that never syncs, unless a setting accepts it', async () => {
  await using directory = await makeTempDir('volatile');
  const script = `mount -t tmpfs tmpfs "$0" && cd "$0" && mkdir lower upper work data &&
    mount -t overlay -o lowerdir=$0/lower,upperdir=$0/upper,workdir=$0/work,volatile overlay $0/data && cd "$1" && shift && exec "$@"`;
  const start = (environment: Readonly<Record<string, string>>) =>
    runProgram(
      [
        ...[requireCommand('unshare'), '--mount', 'sh', '-c', script, directory.path],
        ...[process.cwd(), ...serverCommand()],
      ],
      {
        timeoutMs: 60_000,
        env: {
          PATH: process.env.PATH,
          ...{ SLUICE_DATA: directory.join('data'), SLUICE_BUILDKIT: 'off' },
          ...environment,
        },
      },
    );
  const address = { SLUICE_LISTEN: '127.0.0.1:0' };
  const refused = await start(address);
  assert.equal(refused.code, 1, refused.stdout + refused.stderr);
  assert.match(refused.stdout, /overlay file system .* volatile, .* SLUICE_DATA, or accept/);
  // It goes on to the next fault of its start.
  const accepted = await start({
    ...{ SLUICE_LISTEN: '203.0.113.9:9000', SLUICE_DISK_ANY_FILE_SYSTEM: 'true' },
  });
  assert.match(accepted.stdout, /cannot listen on 203\.0\.113\.9/);
});
