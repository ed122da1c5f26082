/** SSH agents in the steps of real builds, with a real SSH server. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { after, before, suite, test } from 'node:test';
import { readSshKey, type SshSource } from '../../src/buildkit/index.ts';
import { startDaemon } from '../world/daemon.ts';
import { eventually } from '../world/eventually.ts';
import { runProgram } from '../world/program.ts';
import { pushSshImage } from '../world/ssh-image.ts';
import { makeSshKey, type SshKeyFiles } from '../world/ssh-keys.ts';
import { type Sshd, startSshd } from '../world/sshd.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { type BuildWorld, failureOf, startBuildWorld } from './build-world.ts';

suite('SSH in builds', { concurrency: 1 }, () => {
  let world: BuildWorld;
  let place: TempDir;
  let sshd: Sshd;
  let base: string;
  let keys: readonly [one: SshKeyFiles, other: SshKeyFiles];

  before(async () => {
    place = await makeTempDir('ssh');
    keys = [
      makeSshKey(place.join('one'), ['-t', 'ed25519']),
      makeSshKey(place.join('other'), ['-t', 'rsa', '-b', '2048']),
    ];
    sshd = await startSshd({ one: keys[0].publicKey, other: keys[1].publicKey });
    world = await startBuildWorld();
    base = `${world.registry.host}/ssh:1`;
    await pushSshImage(world.buildkitd.address, world.base, base);
  });
  after(async () => {
    await world?.close();
    await sshd?.stop();
    await place?.remove();
  });

  const keyOf = ({ privateKey }: SshKeyFiles): SshSource => ({ keys: [readSshKey(privateKey)] });
  const run = async (step: string, ssh: Readonly<Record<string, SshSource>> = {}) => {
    const log: string[] = [];
    const dockerfile = `FROM ${base}\nRUN ${step}\n`;
    await world.build({ dockerfile, ssh, noCache: true }, { log });
    return log.join('');
  };
  const login = () =>
    `ssh -p ${sshd.port} -o StrictHostKeyChecking=no -o BatchMode=yes root@127.0.0.1`;

  test('a step logs in to a server with the key of its mount', async () => {
    const [one, other] = keys;
    const ssh = { default: keyOf(one), second: keyOf(other) };
    assert.match(await run(`--mount=type=ssh ${login()}`, ssh), /welcome one/);
    const second = await run(`--mount=type=ssh,id=second ${login()}`, ssh);
    assert.match(second, /welcome other/);
    assert.doesNotMatch(second, /welcome one/);
    const listed = await run('--mount=type=ssh,id=second ssh-add -L', ssh);
    assert.ok(listed.includes(other.publicKey) && !listed.includes(one.publicKey), listed);
  });

  test('two keys of one agent are offered in turn', async () => {
    const stranger = makeSshKey(place.join('stranger'), ['-t', 'ecdsa']);
    const both = [stranger, keys[1]].map(({ privateKey }) => readSshKey(privateKey));
    assert.match(
      await run(`--mount=type=ssh ${login()}`, { default: { keys: both } }),
      /welcome other/,
    );
  });

  test('the agent of this machine, by its socket', async () => {
    const socket = place.join('agent');
    await using _ = startDaemon('ssh-agent', ['-D', '-a', socket]);
    const env = { PATH: process.env.PATH, SSH_AUTH_SOCK: socket };
    const add = async () => (await runProgram(['ssh-add', keys[0].path], { env })).code === 0;
    await eventually('the agent has the key', add);
    assert.match(await run(`--mount=type=ssh ${login()}`, { default: { socket } }), /welcome one/);
  });

  test('ADD fetches a git repository over SSH', async () => {
    const tree = place.join('tree');
    const git = (...args: readonly string[]) =>
      execFileSync('git', ['-C', tree, ...args], { encoding: 'utf8' }).trim();
    await mkdir(tree);
    await writeFile(place.join('tree/file'), 'from git\n');
    git('init', '-q', '-b', 'main');
    git('add', 'file');
    git('-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-qm', 'one');
    await using server = await startSshd(
      { one: keys[0].publicKey },
      () => `git upload-pack ${tree}`,
    );
    const log: string[] = [];
    const address = `ssh://root@127.0.0.1:${server.port}/tree`;
    const dockerfile = `FROM ${base}\nADD ${address}#main /tree\nRUN cat /tree/file\n`;
    await world.build({ dockerfile, ssh: { default: keyOf(keys[0]) } }, { log });
    assert.match(log.join(''), /^#\d+ [\d.]+ from git$/m);
    const error = await failureOf(world.build({ dockerfile, ssh: { default: keyOf(keys[1]) } }));
    assert.match(error.message, /Permission denied|Could not read from remote/);
  });

  test('without the agent an optional mount is left out, and a required one fails', async () => {
    const ssh = { other: keyOf(keys[0]) };
    const look = '[ -e "$SSH_AUTH_SOCK" ] || echo "there is none"';
    assert.match(await run(`--mount=type=ssh ${look}`, ssh), /^#\d+ [\d.]+ there is none$/m);
    for (const agents of [ssh, {}]) {
      const error = await failureOf(run('--mount=type=ssh,required=true true', agents));
      assert.equal(error.kind, 'other', error.message);
      assert.match(error.message, /no SSH agent 'default'/i);
    }
  });

  test('a cancelled build closes its agent', async () => {
    const aborter = new AbortController();
    const log: string[] = [];
    const dockerfile = `FROM ${base}\nRUN --mount=type=ssh ssh-add -L && echo ready && sleep 600\n`;
    const ended = world.build(
      { dockerfile, ssh: { default: keyOf(keys[0]) }, noCache: true },
      { log, signal: aborter.signal },
    );
    ended.catch(() => {});
    await eventually('the step runs', async () => /ready$/m.test(log.join('')));
    aborter.abort();
    assert.equal((await failureOf(ended)).kind, 'cancelled');
  });
});
