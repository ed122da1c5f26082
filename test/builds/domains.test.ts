/** Trust domains: which builds share the state of a builder, and what a builder does between two of them. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { readFile, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';
import { type BuildkitClient, build, memoryTree, plainLog } from '../../src/buildkit/index.ts';
import { domainHosts, numberedBuild } from '../../src/builds/builder/build-host.ts';
import { type Builders, createBuilders } from '../../src/builds/builder/builders.ts';
import {
  type FindBuildersOptions,
  type FoundBuilders,
  findBuilders,
} from '../../src/builds/builder/find-builders.ts';
import {
  anonymousDomain,
  createLabelOf,
  domainLabel,
  domainOf,
  domainOfCaller,
  type TrustDomain,
} from '../../src/builds/domain.ts';
import type { RecipeOrigin } from '../../src/builds/plan/build-plan.ts';
import { withBuildRetries } from '../../src/builds/runs/build-retries.ts';
import { createLogger } from '../../src/foundation/telemetry.ts';
import { startBuildkitd } from '../world/buildkitd.ts';
import { eventually } from '../world/eventually.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { buildkitDirectory, requireBusybox } from '../world/tools.ts';

const never = new AbortController().signal;
// Reasons for callers omit what the log has.
const log = createLogger('warn');
const user = domainOfCaller({ owner: 'one', isTrusted: true });
const other = domainOfCaller({ owner: 'other', isTrusted: true });
const alone = (id: string): TrustDomain => ({ ...user, name: `build ${id}`, isAlone: true });

const limits = { memoryBytes: 2 ** 28, processes: 200, processors: undefined };
const containment = {
  openHosts: { builder: [], steps: [] },
  ...{ each: limits, all: limits, buildDiskBytes: 2 ** 28, stateBytes: 2 ** 29 },
};

const ownBuilders = (directory: TempDir, more: Partial<FindBuildersOptions> = {}) => {
  const found = findBuilders({
    ...{ configured: [], usual: [], plainHttp: [], containment, log },
    ...{ directory: directory.join('builders'), folders: [buildkitDirectory()] },
    ...more,
  });
  const builders = createBuilders({ source: found, log });
  return {
    builders,
    async [Symbol.asyncDispose]() {
      await builders.close();
      await found.close();
    },
  };
};

const stopped = (found: FoundBuilders) => ({
  ...found,
  [Symbol.asyncDispose]: () => found.close(),
});

const context = memoryTree({
  busybox: { data: await readFile(requireBusybox('amd64')), mode: 0o755 },
});

/** Runs a step in a domain, and returns the log. */
const runStep = (builders: Builders, domain: TrustDomain, step: string): Promise<string> =>
  builders.use({ domain, platforms: ['linux/amd64'] }, never, client =>
    stepLog(client, domain, step),
  );

const stepLog = async (client: BuildkitClient, domain: TrustDomain, step: string) => {
  let text = '';
  const shown = plainLog(piece => {
    text += piece;
  });
  const dockerfile = `FROM scratch\nCOPY busybox /bin/sh\nRUN ${step}\n`;
  const extraHosts = { ...numberedBuild(), ...domainHosts(domainLabel(domain)) };
  await build(client, { dockerfile, context, extraHosts }, { onProgress: shown.onProgress });
  shown.end();
  return text;
};

const cached = /RUN .*\n(?:.*\n)*?#\d+ CACHED/;

test('a build is alone if something decides its result that is not in the keys of the cache', () => {
  const member = { id: '1', owner: 'one', isTrusted: true };
  const recipe: RecipeOrigin = {
    ...{ kind: 'recipe', recipe: 'dockerfile', dockerfile: 'FROM scratch\n', files: {} },
    ...{ lockStage: undefined, platforms: ['linux/amd64'], baseImages: [], cache: undefined },
  };
  assert.deepEqual(domainOf(member, recipe), user);
  assert.deepEqual(domainOf({ ...member, isTrusted: false }, recipe), anonymousDomain);
  const limited = domainOf({ ...member, limits: ' ["team/*"]' }, recipe);
  assert.notEqual(domainLabel(limited), domainLabel(user), 'a token for certain repositories');
  const names = ['HTTP_PROXY', 'http_proxy', 'Https_Proxy', 'FTP_PROXY', 'no_proxy', 'ALL_PROXY'];
  // A long s: Go takes it for an s, whatever the case.
  for (const name of [...names, 'http\u017f_proxy']) {
    const { isAlone } = domainOf(member, { ...recipe, options: { args: { [name]: 'x' } } });
    assert.equal(isAlone, true, name);
  }
  for (const name of ['PROXY', 'HTTP_PROXY_PORT', 'MY_HTTP_PROXY']) {
    const { isAlone } = domainOf(member, { ...recipe, options: { args: { [name]: 'x' } } });
    assert.equal(isAlone, false, name);
  }
  const secret = { ...recipe, options: { secretIds: ['tok'] } };
  const key = { ...recipe, options: { sshIds: ['default'] } };
  assert.equal(domainOf(member, secret).isAlone, true);
  assert.equal(domainOf(member, key).isAlone, true);
  const next = domainOf({ ...member, id: '2' }, secret);
  assert.notEqual(domainLabel(domainOf(member, secret)), domainLabel(next));
});

test('labels for builders are those of this service, and of nobody else', () => {
  const [own, foreign] = [createLabelOf(Buffer.from('own')), createLabelOf(Buffer.from('foreign'))];
  assert.match(own(user.name), /^[0-9a-f]{32}$/);
  assert.equal(own(user.name), createLabelOf(Buffer.from('own'))(user.name));
  assert.notEqual(own(user.name), own(other.name));
  assert.notEqual(own(user.name), foreign(user.name));
  assert.notEqual(own(user.name), domainLabel(user));
});

suite('builders that the server starts', () => {
  test('each domain has its own, with its own cache; that of a build alone leaves nothing', async () => {
    await using directory = await makeTempDir('domains');
    await using own = ownBuilders(directory);
    const { builders } = own;
    // The call starts none, and neither does a wait for an installation.
    await builders.require(alone('0'));
    await builders.untilThere(user, never);
    assert.equal(existsSync(directory.join('builders')), false);
    await runStep(builders, user, 'echo made');
    assert.match(await runStep(builders, user, 'echo made'), cached);
    for (const domain of [other, anonymousDomain, alone('1'), alone('2')]) {
      assert.doesNotMatch(await runStep(builders, domain, 'echo made'), cached);
    }
    const states = () => readdirSync(directory.join('builders')).filter(name => /-/.test(name));
    await eventually('nothing is left of the builds that were alone', () =>
      states().every(name => name.startsWith('domain-')),
    );
    assert.equal(states().length, 3);
    assert.equal(builders.states().length, 1);
    // Neither does a later call.
    for (const domain of [alone('3'), domainOfCaller({ owner: 'third', isTrusted: true })]) {
      await builders.require(domain);
    }
    assert.equal(states().length, 3);
  });

  test('one without builds ends, and its state serves the next build, also of the next server', async () => {
    await using directory = await makeTempDir('domains');
    const address = (builders: Builders) =>
      builders.use({ domain: user, platforms: [] }, never, async client => client.address);
    {
      await using own = ownBuilders(directory, { idleMs: 1 });
      await runStep(own.builders, user, 'echo kept');
      const first = await address(own.builders);
      const socket = first.slice('unix://'.length);
      await eventually('it has ended', () => !existsSync(socket), 40_000);
      assert.notEqual(await address(own.builders), first);
      assert.match(await runStep(own.builders, user, 'echo kept'), cached);
    }
    await using next = ownBuilders(directory);
    assert.match(await runStep(next.builders, user, 'echo kept'), cached);
  });

  test('the builder of strangers reaches no closed registry, whatever it is redirected to', async () => {
    await using directory = await makeTempDir('domains');
    const [registry, server] = ['127.0.0.1:5000', '127.0.0.1:9090'];
    const openHosts = { builder: [registry, server], steps: [] };
    await using found = stopped(
      findBuilders({
        ...{ configured: [], usual: [], plainHttp: [], log, anonymousReach: [server] },
        ...{ containment: { ...containment, openHosts }, folders: [buildkitDirectory()] },
        directory: directory.join('builders'),
      }),
    );
    for (const [domain, ports] of [
      [user, ['5000', '9090']],
      [anonymousDomain, ['9090']],
    ] as const) {
      const [builder] = await found.find(domain);
      const folder = dirname(builder?.address.slice('unix://'.length) ?? '');
      const rules = await readFile(join(folder, 'rules.nft'), 'utf8');
      assert.deepEqual(rules.match(/(?<=daddr 198\.18\.0\.2 tcp dport )\d+/g), ports, domain.name);
    }
  });

  test('builds of two domains share the limits of all builds', async () => {
    await using directory = await makeTempDir('domains');
    const all = { ...limits, processes: 120 };
    await using own = ownBuilders(directory, { containment: { ...containment, all } });
    const crowd = (seconds: number) =>
      `i=0; while [ $i -lt 80 ]; do sleep ${seconds} & i=$((i+1)); done; sleep ${seconds}`;
    // One alone has room, and the builders of both are there afterwards.
    for (const domain of [user, other]) {
      await withBuildRetries(
        never,
        () => {},
        () => runStep(own.builders, domain, crowd(0.1)),
      );
    }
    const ended = await Promise.allSettled(
      [user, other].map(domain => runStep(own.builders, domain, crowd(6))),
    );
    assert.ok(
      ended.some(({ status }) => status === 'rejected'),
      'both have all their processes',
    );
  });

  test('a domain that fills the disk loses its own state first', async () => {
    await using directory = await makeTempDir('domains');
    const state = (domain: TrustDomain) =>
      existsSync(directory.join(`builders/domain-${domainLabel(domain)}`));
    // Less than two file systems take.
    const less = { ...containment, stateBytes: 2 ** 28 };
    const fill = async (builders: Builders) => {
      await runStep(builders, other, 'dd if=/dev/urandom of=/file bs=1M count=60');
      await runStep(builders, other, 'dd if=/dev/urandom of=/other bs=1M count=60');
      await runStep(builders, other, 'true');
    };
    {
      await using own = ownBuilders(directory);
      await runStep(own.builders, user, 'echo one');
    }
    {
      await using own = ownBuilders(directory, { containment: less });
      await fill(own.builders);
      assert.ok(state(user), 'the cache of a domain that has little is still there');
    }
    // Without its builder, it is the first to go.
    await using own = ownBuilders(directory, { containment: less });
    await runStep(own.builders, anonymousDomain, 'dd if=/dev/urandom of=/file bs=1M count=60');
    await runStep(own.builders, anonymousDomain, 'true');
    assert.ok(state(user));
    assert.equal(state(other), false);
  });
});

suite('other builders', () => {
  const buildersAt = (...addresses: readonly string[]) => buildersNow(() => addresses);
  const buildersNow = (addresses: () => readonly string[], own = log) =>
    createBuilders({
      source: {
        find: async () => addresses().map(address => ({ address, isOpen: true })),
        canStart: async () => false,
        untilInstalled: async () => {},
        isComing: () => false,
        isClosedTo: () => false,
        troubles: () => [],
      },
      ...{ log: own, keepsForUsers: true },
    });

  test('a shared one builds for users without secrets only', async () => {
    await using buildkitd = await startBuildkitd({ isShared: true });
    const warnings: string[] = [];
    const warn = (_: object, text: string) => warnings.push(text);
    const builders = buildersNow(() => [buildkitd.address], {
      ...log,
      warn,
    } as unknown as typeof log);
    await runStep(builders, user, 'echo shared');
    assert.match(
      warnings.join(),
      /share this builder and its cache: .* hash of a git commit or file/,
    );
    assert.doesNotMatch(await runStep(builders, other, 'echo shared'), cached, 'steps are apart');
    for (const domain of [anonymousDomain, alone('1')]) {
      await assert.rejects(builders.require(domain), /use the same builder/);
      await assert.rejects(runStep(builders, domain, 'true'), /use the same builder/);
    }
    await builders.require(other);
    await builders.close();
  });

  test('one of Sluice alone is emptied for another domain, and builds of one wait for those of the other', async () => {
    await using buildkitd = await startBuildkitd();
    const builders = buildersAt(buildkitd.address);
    const usage = (client: BuildkitClient) => client.diskUsage();
    const use = <T>(domain: TrustDomain, work: (client: BuildkitClient) => Promise<T>) =>
      builders.use({ domain, platforms: [] }, never, work);
    await runStep(builders, user, 'echo made');
    assert.match(await runStep(builders, user, 'echo made'), cached);

    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const order: string[] = [];
    const first = use(user, () => held).then(() => order.push('first'));
    const second = use(other, usage).then(records => {
      order.push('second');
      assert.deepEqual(records, []);
    });
    // Comes later than the second: it does not go before it, although the builder has its domain.
    const third = use(user, async () => {}).then(() => order.push('third'));
    release();
    await Promise.all([first, second, third]);
    assert.deepEqual(order, ['first', 'second', 'third']);

    await runStep(builders, alone('1'), 'echo secret');
    await eventually('the state of a build alone is gone', async () => {
      const records = await use(alone('2'), usage);
      return records.length === 0;
    });
    await builders.close();
  });

  test('one that is found at two addresses has one domain at a time, and is emptied', async () => {
    await using buildkitd = await startBuildkitd();
    await using directory = await makeTempDir('address');
    await symlink(buildkitd.directory, directory.join('other'));
    const again = `unix://${directory.join('other/buildkitd.sock')}`;
    const addresses = [buildkitd.address, again];
    const builders = buildersNow(() => addresses);
    const use = <T>(
      domain: TrustDomain,
      work: (client: BuildkitClient) => Promise<T>,
      signal: AbortSignal = never,
    ) => builders.use({ domain, platforms: [] }, signal, work);
    const usage = (client: BuildkitClient) => client.diskUsage();
    await use(user, async client => {
      await stepLog(client, user, 'echo made');
      // It waits, at both addresses.
      await assert.rejects(use(other, usage, AbortSignal.timeout(1000)), { name: 'TimeoutError' });
      assert.notDeepEqual(await usage(client), []);
    });
    // Whatever address is the first one.
    for (const domain of [other, user, anonymousDomain]) {
      addresses.reverse();
      assert.deepEqual(await use(domain, usage), [], domain.name);
      await runStep(builders, domain, 'echo made');
    }
    await builders.close();
  });

  test('strangers that run and wait leave one of several to users', async () => {
    await using first = await startBuildkitd();
    await using second = await startBuildkitd();
    const builders = buildersAt(first.address, second.address);
    const use = (domain: TrustDomain, work: () => Promise<void>) =>
      builders.use({ domain, platforms: [] }, never, work);
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const { promise: begun, resolve: begins } = Promise.withResolvers<void>();
    const running = use(anonymousDomain, () => {
      begins();
      return held;
    });
    await begun;
    let isOver = false;
    const waiting = use({ ...anonymousDomain, name: 'build 1', isAlone: true }, async () => {
      isOver = true;
    });
    // Does not wait for anonymous callers, whenever they came.
    for (let count = 0; count < 3; count += 1) await use(user, async () => {});
    assert.equal(isOver, false);
    release();
    await Promise.all([running, waiting]);
    await builders.close();
  });

  test('what a cancelled build leaves in use does not reach another domain', async () => {
    await using buildkitd = await startBuildkitd();
    const builders = buildersAt(buildkitd.address);
    const stop = new AbortController();
    const cancelled = builders.use({ domain: user, platforms: [] }, stop.signal, client =>
      build(
        client,
        {
          dockerfile: 'FROM scratch\nCOPY busybox /bin/sh\nRUN echo secret > /made\nRUN sleep 99\n',
          ...{ context, extraHosts: domainHosts(domainLabel(user)) },
        },
        { signal: stop.signal },
      ),
    );
    await eventually('a step runs', async () => (await buildkitd.containerProcesses()).length > 0);
    stop.abort(new Error('cancelled'));
    await assert.rejects(cancelled);
    assert.doesNotMatch(await runStep(builders, other, 'echo secret > /made'), cached);
    await builders.close();
  });
});
