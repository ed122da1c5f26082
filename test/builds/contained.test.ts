/** The builder that Sluice starts: the network and the limits of its builds. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { dirname } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import {
  type BuildkitClient,
  build,
  connect,
  directoryTree,
  plainLog,
  readSshKey,
} from '../../src/buildkit/index.ts';
import { numberedBuild } from '../../src/builds/builder/build-host.ts';
import type { OwnBuilder } from '../../src/builds/builder/own/builder-process.ts';
import { startOwnBuilder } from '../../src/builds/builder/own/own-builder.ts';
import { createLogger } from '../../src/foundation/telemetry.ts';
import { waitForLine } from '../world/daemon.ts';
import { eventually } from '../world/eventually.ts';
import { otherAddresses, ownAddresses, startMachine } from '../world/machine.ts';
import { copySshClient } from '../world/ssh-image.ts';
import { makeSshKey } from '../world/ssh-keys.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { each, followBuild, type Outcome, optionsFor, tryBuild } from './contained-world.ts';
import { hogs } from './hogs.ts';

/** A RUN that prints `open` or `closed` for each address with a port. */
function probe(targets: readonly string[]): string {
  const lines = targets.map(target => {
    const [host, port] = target.split(':');
    return `nc -w 3 ${host} ${port} < /dev/null > /dev/null 2>&1 && echo "open ${target}." || echo "closed ${target}."`;
  });
  return `RUN ${lines.join('; ')}`;
}

function readIn(path: string): string {
  // A process of the list may have ended.
  return existsSync(path) ? readFileSync(path, 'utf8') : '';
}

function isBuildkitd(command: string, config: string): boolean {
  const [program = '', ...words] = command.split('\0');
  return program.endsWith('buildkitd') && words.includes(config);
}

/** Returns the number of the buildkitd that has its state in this directory. */
function processOf(directory: TempDir): string | undefined {
  const config = directory.join('builder/buildkitd.toml');
  return readdirSync('/proc').find(
    name => /^\d+$/.test(name) && isBuildkitd(readIn(`/proc/${name}/cmdline`), config),
  );
}

function openAmong(log: string): string[] {
  return [
    ...new Set([...log.matchAll(/^#\d+ [\d.]+ open (\S+)\.$/gm)].map(([, name = '']) => name)),
  ];
}

test('builds reach the internet and listed hosts, and no closed address', async () => {
  await using directory = await makeTempDir('contained');
  await using web = await makeTempDir('web');
  const options = optionsFor(directory, {
    openHosts: {
      builder: ['127.0.0.1:8080', `${otherAddresses.neighbour}:8080`],
      steps: [`${otherAddresses.office}:80`],
    },
  });
  const program = fileURLToPath(new URL('../world/own-builder-program.ts', import.meta.url));
  await using machine = await startMachine(
    [process.execPath, program, JSON.stringify(options)],
    web,
  );
  const [, isContained, address = ''] = await waitForLine(
    machine.daemon,
    /^contained (\w+) (unix:.*)$/,
  );
  assert.equal(isContained, 'true', machine.daemon.output());
  const client = connect(address);
  try {
    const hosts = [...ownAddresses, ...Object.values(otherAddresses)];
    const targets = hosts.flatMap(host => [`${host}:80`, `${host}:8080`]);
    const gates = ['198.18.0.2:80', '198.18.0.2:8080', '198.18.0.3:80', '198.19.255.254:80'];
    const { log, failure } = await tryBuild(client, probe([...targets, ...gates]));
    assert.equal(failure, undefined, log);
    assert.deepEqual(openAmong(log), [
      `${otherAddresses.internet}:80`,
      `${otherAddresses.internet}:8080`,
      `${otherAddresses.office}:80`,
    ]);

    const add = async (url: string) => (await tryBuild(client, `ADD ${url} /file`)).failure;
    const open = [
      `${otherAddresses.internet}:80`,
      '127.0.0.1:8080',
      `${otherAddresses.neighbour}:8080`,
      `${otherAddresses.office}:80`,
    ];
    const fetched = await Promise.all(
      [...targets, ...gates].map(async target => ({
        target,
        failure: await add(`http://${target}/file`),
      })),
    );
    const reached = fetched.filter(one => one.failure === undefined).map(({ target }) => target);
    assert.deepEqual(
      reached.sort(),
      [...open, `${otherAddresses.internet}:8080`, '198.18.0.2:8080'].sort(),
    );
    for (const { target, failure } of fetched) {
      if (failure) assert.match(failure.message, /no route to host|refused|permitted/, target);
    }
    const git = await add(`http://${otherAddresses.metadata}/repository.git`);
    assert.match(git?.message ?? '', /No route to host|Failed to connect/i);
  } finally {
    client.close();
  }
  machine.daemon.process.stdin?.end();
  await machine.daemon.ended;
});

suite('on this machine', { concurrency: 1 }, () => {
  let directory: TempDir;
  let builder: OwnBuilder;
  let client: BuildkitClient;

  before(async () => {
    directory = await makeTempDir('contained');
    const log = createLogger('silent');
    const started = await startOwnBuilder({ ...optionsFor(directory), log });
    assert.ok(started?.isContained);
    builder = started;
    client = connect(builder.address);
  });
  after(async () => {
    client?.close();
    await builder?.stop();
    await directory?.remove();
  });

  const check = async (...lines: string[]): Promise<Outcome> => {
    await builder.refresh();
    return tryBuild(client, ...lines);
  };

  test('only its own user reaches its socket, and no step does', async () => {
    const socket = builder.address.slice('unix://'.length);
    assert.ok(statSync(socket).isSocket());
    assert.equal(statSync(dirname(socket)).mode & 0o777, 0o700);
    const { log, failure } = await check(`RUN ls ${dirname(socket)} ${socket} || echo hidden`);
    assert.equal(failure, undefined, log);
    assert.match(log, /^#\d+ [\d.]+ hidden$/m);
  });

  test('no step has the socket that takes traces', async () => {
    const { log, failure } = await check(
      'RUN find / -xdev -type s; ls /dev; echo end of sockets',
      'RUN env; echo end of variables',
    );
    assert.equal(failure, undefined, log);
    assert.match(log, /^#\d+ [\d.]+ end of sockets$/m);
    assert.match(log, /^#\d+ [\d.]+ end of variables$/m);
    assert.ok(!/otel/i.test(log), log);
  });

  test('the builder itself has the limit of a build, in the group of all builds, and the kernel ends it before the server', async () => {
    const pid = processOf(directory);
    const [, group = ''] = /:(?:memory)?:(.*\/daemon)$/m.exec(readIn(`/proc/${pid}/cgroup`)) ?? [];
    const files = [`memory${group}/memory.limit_in_bytes`, `${group}/memory.max`];
    const limits = files.map(file => readIn(`/sys/fs/cgroup/${file}`).trim());
    assert.ok(limits.includes(String(each.memoryBytes)), `${limits} in ${group}`);
    assert.equal(readIn(`/proc/${pid}/oom_score_adj`).trim(), '500');
    const { log, failure } = await check(
      'RUN cat /proc/self/cgroup; echo score $(cat /proc/self/oom_score_adj)',
    );
    assert.equal(failure, undefined, log);
    assert.match(log, /score 500$/m);
    assert.ok(!log.includes('/daemon'), log);
  });

  test('steps cannot reach the loopback address or the own addresses', async () => {
    const server = createServer(socket => socket.end('closed\n')).listen(0, '0.0.0.0');
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    try {
      const own = Object.values(networkInterfaces()).flatMap(entries => entries ?? []);
      const hosts = own.filter(({ family }) => family === 'IPv4').map(entry => entry.address);
      const targets = ['127.0.0.1', ...hosts].map(host => `${host}:${port}`);
      const { log, failure } = await check(probe(targets));
      assert.equal(failure, undefined, log);
      assert.deepEqual(openAmong(log), []);
      for (const target of targets) {
        const added = await check(`ADD http://${target}/ /file`);
        assert.match(added.failure?.message ?? '', /no route to host|refused/, target);
      }
    } finally {
      server.close();
    }
  });

  test('steps cannot open a raw socket', async () => {
    const { log } = await check(
      'RUN ping -c 1 -W 1 127.0.0.1 || echo no ping',
      'RUN arping -c 1 -w 1 -I eth0 198.19.255.254 || echo no arping',
      'RUN echo caps-$(grep CapBnd /proc/self/status | cut -f 2)',
    );
    assert.match(log, /^#\d+ [\d.]+ no ping$/m, log);
    assert.match(log, /^#\d+ [\d.]+ no arping$/m, log);
    const [, capabilities = ''] = /^#\d+ [\d.]+ caps-([0-9a-f]{16})$/m.exec(log) ?? [];
    const netRaw = 1n << 13n;
    assert.equal(BigInt(`0x${capabilities}`) & netRaw, 0n);
  });

  test('steps cannot see each other', async () => {
    const neighbours = Array.from({ length: 12 }, (_, index) => `198.19.0.${index + 1}:7777`);
    const dockerfile = [
      'RUN { timeout 4 nc -l -p 7777 -e echo open; true; }',
      'FROM scratch',
      'COPY busybox /bin/busybox',
      'COPY busybox /bin/sh',
      `RUN echo ${randomUUID()} && /bin/busybox --install -s /bin && sleep 1`,
      probe(neighbours).replaceAll('-w 3', '-w 1'),
      'COPY --from=0 /bin/sh /other',
    ];
    const { log, failure } = await check(...dockerfile);
    assert.equal(failure, undefined, log);
    assert.match(log, /closed 198\.19\.0\.1:7777/);
    assert.deepEqual(openAmong(log), []);
  });

  test('a step uses the SSH agent of its build', async () => {
    await builder.refresh();
    await using files = await makeTempDir('ssh');
    await copySshClient(files.path);
    await using place = await makeTempDir('ssh');
    const { privateKey, publicKey } = makeSshKey(place.join('key'), ['-t', 'ed25519']);
    const dockerfile = [
      'FROM scratch',
      'COPY . /',
      'RUN --mount=type=ssh,required=true ["/usr/bin/ssh-add", "-L"]',
    ].join('\n');
    let log = '';
    const text = plainLog(piece => {
      log += piece;
    });
    await build(
      client,
      {
        dockerfile,
        context: directoryTree(files.path),
        extraHosts: numberedBuild(),
        ssh: { default: { keys: [readSshKey(privateKey)] } },
      },
      { onProgress: text.onProgress },
    );
    text.end();
    assert.ok(log.includes(publicKey), log);
    const folder = dirname(builder.address.slice('unix://'.length));
    const temporary = readdirSync(`/proc/${processOf(directory)}/root${folder}/state/tmp`);
    assert.match(temporary.join(), /\.buildkit-ssh-sock/, 'its leftovers are on its own disk');
  });

  for (const [what, { script, reason, ...more }] of Object.entries(hogs)) {
    test(`a step that uses all ${what} is ended, and the next build works`, async () => {
      const mount = 'mount' in more ? more.mount : '';
      const { log, failure } = await check(`RUN ${mount}${script}`);
      assert.match(`${log}${failure?.message}`, reason);
      const next = await check('RUN dd if=/dev/zero of=/small bs=1M count=100 && echo fine');
      assert.equal(next.failure, undefined, next.log);
    });
  }

  test('a step cannot forge the number of a build', async () => {
    for (const mount of ['type=bind,from=forger,source=/forged', 'type=tmpfs']) {
      const { log, failure } = await check(
        'FROM scratch AS forger',
        'COPY --from=0 /bin /bin',
        'RUN echo 0.7.7.7 sluice-build > /forged',
        'FROM scratch',
        'COPY --from=0 /bin /bin',
        `RUN --mount=${mount},target=/etc/hosts cat /proc/self/mountinfo`,
      );
      assert.match(
        failure?.message ?? '',
        /"\/bin\/sh -c cat \/proc\/self\/mountinfo" did not complete/,
        mount,
      );
      assert.doesNotMatch(log, /build-7\.7\.7/);
    }
  });

  test('a step gets neither devices nor the rights of the machine', async () => {
    const refusals = {
      '--device=example.org/device=all,required': /CDI device support is disabled/,
      '--network=host': /network\.host is not allowed/,
      '--security=insecure': /security\.insecure is not allowed/,
    };
    for (const [flag, reason] of Object.entries(refusals)) {
      const { failure } = await check(`RUN ${flag} echo ran`);
      assert.match(failure?.message ?? '', reason, flag);
    }
  });

  test('simultaneous steps of one build share its processes', async () => {
    const crowd = (name: string) =>
      `RUN i=0; while [ $i -lt 60 ]; do sleep 20 & i=$((i+1)); done; echo ${name}; sleep 8`;
    const { log, failure } = await check(
      crowd('one'),
      'FROM scratch AS other',
      'COPY busybox /bin/busybox',
      'COPY busybox /bin/sh',
      'RUN /bin/busybox --install -s /bin',
      crowd('two'),
      'FROM other',
      'COPY --from=0 /bin/sh /other',
    );
    assert.match(`${log}${failure?.message}`, /can't fork/);
  });

  test('consecutive steps of one build share its disk', async () => {
    const write = (name: string) => `dd if=/dev/zero of=/${name} bs=1M count=80`;
    const { log, failure } = await check(`RUN ${write('one')}`, `RUN ${write('two')}; sleep 100`);
    assert.match(
      `${log}${failure?.message}`,
      /its build has written more than the 128 MiB that a build may write/,
    );
    const alone = await check(`RUN ${write('one')}`, 'RUN echo fine');
    assert.equal(alone.failure, undefined, alone.log);
  });

  test('what the builder removes meanwhile does not hide what a build writes', async () => {
    const write = (name: string) => `dd if=/dev/zero of=/${name} bs=1M count=80`;
    // The space that is freed.
    assert.equal((await check(`RUN ${write('old')}`)).failure, undefined);
    const free = 'stat -f -c %f /';
    let seen = '';
    const building = followBuild(
      client,
      text => {
        seen = text;
      },
      `RUN ${free} > /was; echo begun; until [ $(($(${free}) - $(cat /was))) -gt 10000 ]; do sleep 0.1; done; ${write('one')}`,
      `RUN ${write('two')}`,
      'RUN sleep 100',
    );
    await eventually('the step runs', () => /^#\d+ [\d.]+ begun$/m.test(seen));
    await client.prune({ all: true });
    const { log, failure } = await building;
    assert.match(`${log}${failure?.message}`, /has written more than the 128 MiB/);
  });

  test('a build gets its share of the processors', async () => {
    const loop = 'timeout 3 sh -c "while :; do :; done"';
    const { log, failure } = await check(
      `RUN cat /proc/uptime; for i in 1 2 3; do ${loop} & done; wait; cat /proc/uptime; times`,
    );
    assert.equal(failure, undefined, log);
    const [began = 0, ended = 0] = [...log.matchAll(/^#\d+ [\d.]+ ([\d.]+) [\d.]+$/gm)].map(
      ([, seconds]) => Number(seconds),
    );
    const times = [...log.matchAll(/(\d+)m([\d.]+)s/g)].map(
      ([, minutes, seconds]) => Number(minutes) * 60 + Number(seconds),
    );
    const used = times.reduce((sum, seconds) => sum + seconds, 0);
    assert.ok(times.length > 0 && ended > began, log);
    assert.ok(used < (ended - began) * each.processors + 0.5, `${used} s of ${ended - began} s`);
  });

  test('files of successful builds do not use up the disk', async () => {
    for (let count = 0; count < 5; count += 1) {
      const { failure, log } = await check(
        `RUN mkdir /many && cd /many && seq 1 15000 | xargs touch && echo ${count}`,
      );
      assert.equal(failure, undefined, log);
    }
  });

  test('its disk is limited, whatever the number of builds', async () => {
    for (let count = 0; count < 5; count += 1) {
      const { failure } = await check(
        `RUN dd if=/dev/zero of=/big-${count} bs=1M count=120 && echo fine`,
      );
      assert.equal(failure, undefined, `build ${count}`);
    }
  });
});
