/** A backup of a running server, restored on a new machine. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { digestOf } from '../../src/oci/digest.ts';
import { lockData } from '../../src/storage/directory/data-lock.ts';
import { call } from '../faults/http-client.ts';
import {
  pattern,
  type ScriptedUpstream,
  startScriptedUpstream,
} from '../faults/scripted-upstream.ts';
import { expect, Repository } from '../hosted/push-client.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { requireCommand } from '../world/tools.ts';

let directory: TempDir;
let upstream: ScriptedUpstream;
let sluice: Sluice;

const config = () => ({
  accounts: { admin: 'secret' },
  registries: { [upstream.host]: { plainHttp: true, blobs: 'cache' } },
});

before(async () => {
  directory = await makeTempDir('backup');
  upstream = await startScriptedUpstream();
  sluice = await startSluice({ config: config(), data: directory.join('data') });
});
after(async () => {
  await sluice?.stop();
  await upstream?.stop();
  await directory?.remove();
});

async function command(...args: readonly string[]) {
  const result = await sluiceCommand([...args, '--json']);
  return { ...result, report: result.stdout === '' ? undefined : JSON.parse(result.stdout) };
}

const backup = (to: string, ...args: readonly string[]) =>
  command('backup', directory.join(to), '--data', sluice.data, ...args);

const restore = (from: string, to: string) =>
  command('restore', directory.join(from), '--data', directory.join(to));

test('content acknowledged before the backup is on the new machine', async () => {
  const layer = pattern(300_000, 'hosted');
  const manifest = await new Repository(sluice, 'team/app').pushImage('1', [layer]);
  const image = upstream.image('up/app', [pattern(100_000, 'upstream')]);
  const served = await sluice.request({
    containerImage: image.name,
    containerConfig: { env: ['A=1'] },
  });
  const place = `blobs/${image.layers[0]?.digest}`;
  assert.ok((await call(sluice.at(served.targetImage, place))).isWhole);
  const of = ['--data', sluice.data];
  assert.equal((await command('user', 'add', 'ada@example.org', ...of)).code, 0);
  const { report: token } = await command(
    'token',
    'add',
    '--user',
    'ada@example.org',
    '--name',
    'x',
    ...of,
  );

  // The server is at work meanwhile.
  let isOver = false;
  const pushing = (async () => {
    for (let at = 0; !isOver; at += 1) {
      await new Repository(sluice, 'team/busy').pushImage(`${at}`, [pattern(50_000, `busy ${at}`)]);
    }
  })();
  const { code, report, stderr } = await backup('first', '--with-secrets-key');
  isOver = true;
  await pushing;
  assert.equal(code, 0, stderr);
  assert.deepEqual(report.damaged, []);
  assert.equal((await stat(directory.join('first/sluice.db'))).mode & 0o777, 0o600);
  const cached = image.layers[0]?.digest.slice('sha256:'.length) ?? '';
  const path = directory.join(`first/content/blobs/sha256/${cached.slice(0, 2)}/${cached}`);
  await assert.rejects(stat(path), 'a copy of an upstream blob is left out');

  const { code: restored, stderr: why } = await restore('first', 'other');
  assert.equal(restored, 0, why);
  await using other = await startSluice({ config: config(), data: directory.join('other') });
  const repository = new Repository(other, 'team/app');
  assert.equal(
    expect(await repository.get('manifests/1'), 200).headers['docker-content-digest'],
    manifest,
  );
  assertBytes(expect(await repository.get(`blobs/${digestOf(layer)}`), 200).body, layer);
  const again = await call(other.at(served.targetImage, `manifests/${served.digest}`));
  assert.equal(again.status, 200, again.body.toString());
  assert.ok((await call(other.at(served.targetImage, place))).isWhole);
  const who = await other.fetch('/platform/user-info', {
    headers: { authorization: `Bearer ${token.token ?? token.accessToken ?? token.accessKey}` },
  });
  assert.equal(who.status, 200, JSON.stringify(token));
  const busy = await new Repository(other, 'team/busy').get('tags/list');
  for (const tag of JSON.parse(busy.body.toString()).tags ?? []) {
    const found = expect(await new Repository(other, 'team/busy').get(`manifests/${tag}`), 200);
    for (const { digest } of JSON.parse(found.body.toString()).layers) {
      expect(await new Repository(other, 'team/busy').get(`blobs/${digest}`), 200);
    }
  }
  const verified = await command('verify', '--data', other.data);
  assert.equal(verified.code, 0, verified.stdout);
});

test('a second backup copies only new content', async () => {
  assert.equal((await backup('second')).code, 0);
  await new Repository(sluice, 'team/app').pushImage('2', [pattern(70_000, 'new')]);
  const { report } = await backup('second');
  assert.equal(report.copied, 3, 'a layer, a config, a manifest');
  await assert.rejects(stat(directory.join('second/secrets.key')));
});

test('a killed restore is resumed, and no server starts before it is complete', async () => {
  const repository = new Repository(sluice, 'team/large');
  for (let at = 0; at < 40; at += 1) {
    expect(await repository.pushBlob(pattern(1_000_000, `large ${at}`)), 201);
  }
  assert.equal((await backup('large')).code, 0);
  // Nobody writes to this log: the restore does not end before it is killed.
  const held = directory.join('large/logs/builds/held');
  execFileSync(requireCommand('mkfifo'), [held]);
  const program = fileURLToPath(new URL('../../bin/sluice.js', import.meta.url));
  const to = directory.join('killed');
  const args = [program, 'restore', directory.join('large'), '--data', to];
  const child = spawn(process.execPath, args, { env: { PATH: process.env.PATH }, stdio: 'ignore' });
  await eventually('some content is there', () =>
    stat(`${to}/content/blobs/sha256`).then(
      () => true,
      () => false,
    ),
  );
  child.kill('SIGKILL');
  await once(child, 'exit');
  await rm(held);
  await assert.rejects(stat(`${to}/sluice.db`));
  await assert.rejects(startSluice({ config: config(), data: to }));
  const { code, stderr } = await restore('large', 'killed');
  assert.equal(code, 0, stderr);
  await using other = await startSluice({ config: config(), data: to });
  for (let at = 0; at < 40; at += 1) {
    const digest = digestOf(pattern(1_000_000, `large ${at}`));
    expect(await new Repository(other, 'team/large').send('HEAD', `blobs/${digest}`), 200);
  }
});

test('damaged content is not copied, and the exit code reports it', async () => {
  const blob = pattern(100_000, 'rotten');
  expect(await new Repository(sluice, 'team/rot').pushBlob(blob), 201);
  const hex = digestOf(blob).slice('sha256:'.length);
  const path = `${sluice.data}/content/blobs/sha256/${hex.slice(0, 2)}/${hex}`;
  const bytes = await readFile(path);
  bytes[777] = (bytes[777] ?? 0) ^ 4;
  await writeFile(path, bytes);
  const { code, report } = await backup('rotten');
  assert.equal(code, 1);
  assert.deepEqual(report.damaged, [digestOf(blob)]);
  assert.ok(await stat(path), 'it is not the backup that sets it aside');
});

test('a damaged backup is restored as far as possible, from a read-only disk', async () => {
  const blob = pattern(100_000, 'rots in the backup');
  const digest = digestOf(blob);
  expect(await new Repository(sluice, 'team/rots').pushBlob(blob), 201);
  await backup('rots');
  const hex = digest.slice('sha256:'.length);
  const path = directory.join(`rots/content/blobs/sha256/${hex.slice(0, 2)}/${hex}`);
  const bytes = await readFile(path);
  bytes[777] = (bytes[777] ?? 0) ^ 4;
  await writeFile(path, bytes);
  await rm(directory.join('rots/content/tmp'), { recursive: true });

  const readOnly = directory.join('read-only');
  await mkdir(readOnly);
  const mount = requireCommand('mount');
  execFileSync(mount, ['--bind', directory.join('rots'), readOnly]);
  execFileSync(mount, ['-o', 'remount,bind,ro', readOnly]);
  try {
    const { code, report, stderr } = await restore('read-only', 'restored');
    assert.equal(code, 1, stderr);
    assert.deepEqual(report.damaged, [digest]);
    const repositories = report.missing.map((found: { repository: string }) => found.repository);
    // The content that an earlier test has damaged is not in the backup at all.
    assert.deepEqual(repositories.sort(), ['team/rot', 'team/rots']);
  } finally {
    execFileSync(requireCommand('umount'), [readOnly]);
  }
  assertBytes(await readFile(path), bytes);
  const { report } = await backup('rots');
  assert.equal(report.copied, 0, 'its size is right');
  const { report: checked } = await backup('rots', '--check');
  assert.equal(checked.copied, 1);
  assertBytes(await readFile(path), blob);
});

test('one backup at a time writes into a directory, and removes leftovers of an interrupted one', async () => {
  const left = directory.join('second/content/tmp/left');
  await writeFile(left, 'half');
  {
    using _lock = await lockData(directory.join('second'), () => {});
    const { code, stderr } = await backup('second');
    assert.equal(code, 1);
    assert.match(
      stderr,
      /Another backup writes into .*second: run the command again when it has finished/,
    );
    assert.ok(await stat(left));
  }
  await backup('second');
  await assert.rejects(stat(left));
});

test('impossible requests are refused with a remedy', async () => {
  const inside = await command('backup', `${sluice.data}/backup`, '--data', sluice.data);
  assert.match(inside.stderr, /is inside the data directory/);
  const { stderr, code } = await restore('second', 'data');
  assert.equal(code, 1);
  assert.match(stderr, /is not empty: restore into a new directory/);
  const unfinished = await restore('nowhere', 'fresh');
  assert.match(unfinished.stderr, /is not a complete backup/);
});
