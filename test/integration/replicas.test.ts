/** Several servers of one site: any of them answers, one leads, and another one takes its place. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';
import { readVersion } from '../../src/foundation/version.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { openReplicaList } from '../../src/storage/rows/postgres/index.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { call, raw } from '../faults/http-client.ts';
import { basic, expect, Repository } from '../hosted/push-client.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { eventually } from '../world/eventually.ts';
import { makeNextVersion } from '../world/next-version.ts';
import { type ObjectStore, startObjectStore } from '../world/object-store.ts';
import { type Postgres, startPostgres } from '../world/postgres.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Replicas, startReplicas } from '../world/replicas.ts';
import type { ContainerResponse, Sluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { accounts, admin } from './hosted.ts';

const login = basic(admin.username, admin.password);

suite('three replicas', () => {
  let postgres: Postgres;
  let store: ObjectStore;
  let registry: Registry;
  let builder: Buildkitd;
  let replicas: Replicas;

  before(async () => {
    [postgres, store, registry, builder] = await Promise.all([
      startPostgres(),
      startObjectStore(),
      startRegistry(),
      startBuildkitd(),
    ]);
    await pushCorpus(registry, ['cfg:full', 'busybox:oci']);
    replicas = await startReplicas({
      ...{ postgres, store, count: 3 },
      config: {
        accounts,
        buildkit: [builder.address],
        access: { builds: 'open' },
        // A fast machine asks for more than the default limits allow.
        limits: {
          builds: { anonymous: 'off' },
          pulls: { anonymous: 'off' },
          requests: { anonymous: 'off' },
        },
        registries: { [registry.host]: { plainHttp: true } },
      },
    });
  });
  after(async () => {
    await replicas?.[Symbol.asyncDispose]();
    await builder?.stop();
    await registry?.stop();
    await store?.[Symbol.asyncDispose]();
    await postgres?.[Symbol.asyncDispose]();
  });

  const server = (position: number): Sluice => {
    const found = replicas.servers[position];
    assert.ok(found);
    return found;
  };
  const request = (at: Sluice, name: string) =>
    at.request({
      containerImage: `${registry.host}/corpus/cfg:full`,
      containerConfig: { env: [`NAME=${name}`] },
    });
  const manifest = (at: Sluice, { targetImage }: ContainerResponse) =>
    fetch(at.at(targetImage, `manifests/${targetImage.split(':').at(-1)}`), {
      headers: { accept: '*/*' },
    });

  test('the dashboard lists each of them', async () => {
    const dashboard = readFileSync('deploy/grafana/sluice.json', 'utf8');
    const [, metric = ''] = /label_values\((\w+), instance\)/.exec(dashboard) ?? [];
    const pages = await Promise.all(
      replicas.servers.map(async at => (await at.fetch('/metrics')).text()),
    );
    assert.deepEqual(
      pages.map(page => page.split('\n').filter(line => line.startsWith(`${metric} `)).length),
      [1, 1, 1],
      metric,
    );
  });

  test('a request to one of them is pulled from another', async () => {
    const response = await request(server(1), 'one');
    assert.ok(response.targetImage.startsWith(replicas.balancer.host));
    for (const at of replicas.servers) {
      const found = await manifest(at, response);
      assert.equal(found.status, 200);
      const { layers } = (await found.json()) as { layers: { digest: string; size: number }[] };
      for (const { digest } of layers) {
        const blob = await fetch(at.at(response.targetImage, `blobs/${digest}`));
        assert.equal(digestOf(Buffer.from(await blob.arrayBuffer())), digest);
      }
    }
  });

  test('the replica that a client asks checks the host, and the leader takes its word', async () => {
    const follower = ((await replicas.leader()) + 1) % 3;
    await server(follower).stop();
    const at = await replicas.start(follower, { SLUICE_HOSTS: 'only-here' });
    const ask = (to: Sluice, host: string) => call(`${to.url}/service-info`, { headers: { host } });
    assert.equal((await ask(at, 'only-here')).status, 200);
    assert.equal((await ask(at, 'evil.example')).status, 421);
    assert.equal((await ask(server(await replicas.leader()), 'only-here')).status, 421);
    // A page can send this header, but does not know the proof.
    const headers = { host: 'evil.example', 'sluice-replica': 'x', 'sluice-peer': '127.0.0.1' };
    for (const to of replicas.servers) {
      assert.equal((await call(`${to.url}/service-info`, { headers })).status, 421);
    }
    const plain = await raw(at.port, 'GET /service-info HTTP/1.0\r\n\r\n');
    assert.match(plain, /^HTTP\/1\.1 200 /);
  });

  test('a push in chunks changes the replica in the middle', async () => {
    const bytes = randomBytes(3 * 1024 ** 2);
    const parts = [0, 1, 2].map(at => bytes.subarray(at * 1024 ** 2, (at + 1) * 1024 ** 2));
    const begun = await new Repository(server(0), 'team/chunks', login).begin();
    let location = new URL(begun, replicas.balancer.url);
    for (const [at, part] of parts.entries()) {
      const url = server(at).url + location.pathname + location.search;
      const sent = await fetch(url, { method: 'PATCH', headers: login, body: part });
      assert.equal(sent.status, 202, await sent.text());
      location = new URL(sent.headers.get('location') ?? '', replicas.balancer.url);
    }
    location.searchParams.set('digest', digestOf(bytes));
    const url = server(1).url + location.pathname + location.search;
    assert.equal((await fetch(url, { method: 'PUT', headers: login })).status, 201);
    const read = await new Repository(server(2), 'team/chunks', login).get(
      `blobs/${digestOf(bytes)}`,
    );
    assert.ok(read.body.equals(bytes));
  });

  /** Kills the one that leads. Returns the others when one of them leads. */
  const killLeader = async (): Promise<{ killed: number; others: readonly Sluice[] }> => {
    const killed = await replicas.leader();
    await server(killed).kill();
    await eventually('another one leads', async () => {
      const next = await replicas.leader();
      return next >= 0 && next !== killed;
    });
    return { killed, others: replicas.servers.filter((_, at) => at !== killed) };
  };

  test('a command beside one that has not led yet needs no directory of its data', async () => {
    const folder = `${replicas.keys}-absent`;
    const env = { ...replicas.environment(2), SLUICE_DATA: folder };
    const { code, stdout, stderr } = await sluiceCommand(['audit', '--json'], env);
    assert.equal(code, 0, stderr);
    assert.ok(Array.isArray(JSON.parse(stdout).entries), stdout);
    assert.ok(!existsSync(folder));
  });

  test('another one takes the lead of one that is killed', async () => {
    const response = await request(server(2), 'before');
    const first = await replicas.leader();
    await server(first).kill();
    const others = replicas.servers.filter((_, at) => at !== first);
    // Requests wait for the next leader.
    for (const at of others) assert.equal((await manifest(at, response)).status, 200);
    const again = await replicas.start(first);
    assert.equal((await manifest(again, response)).status, 200);
    assert.equal((await manifest(again, await request(again, 'after'))).status, 200);
    assert.notEqual(await replicas.leader(), first);
  });

  test('a push in chunks continues at the next leader', async () => {
    const bytes = randomBytes(10 * 1024 ** 2);
    const team = new Repository(replicas.balancer, 'team/continued', login);
    const location = await team.begin();
    const length = 3 * 1024 ** 2;
    for (let from = 0; from < bytes.length; from += length) {
      const part = bytes.subarray(from, from + length);
      const range = { 'content-range': `${from}-${from + part.length - 1}` };
      assert.equal((await team.send('PATCH', location, part, range)).status, 202);
      const { killed } = await killLeader();
      const state = await team.get(location);
      assert.equal(state.headers.range, `0-${from + part.length - 1}`);
      await replicas.start(killed);
    }
    const digest = digestOf(bytes);
    assert.equal((await team.send('PUT', `${location}?digest=${digest}`)).status, 201);
    assert.ok((await team.get(`blobs/${digest}`)).body.equals(bytes));
    assert.equal((await team.get(location)).status, 404);
    assert.deepEqual(await replicas.objects('uploads/'), []);
  });

  test('a build continues at the next leader, and every one has its log', async () => {
    const text = `FROM ${registry.host}/corpus/busybox:oci\nRUN echo begun && sleep 5 && echo ended\n`;
    const body = { containerFile: Buffer.from(text).toString('base64') };
    const { buildId = '', ...response } = await server(1).request(body);
    const logOf = async (at: Sluice) => (await at.fetch(`/v1alpha1/builds/${buildId}/logs`)).text();
    const isEnded = async (at: Sluice) => {
      const status = await at.fetch(`/v1alpha1/builds/${buildId}/status`);
      return ((await status.json()) as { status: string }).status === 'COMPLETED';
    };
    await eventually('the step has begun', async () => /begun$/m.test(await logOf(server(2))));
    const { killed, others } = await killLeader();
    const [one, other] = others;
    assert.ok(one && other);
    await eventually('the build ends', () => isEnded(one), 120_000);
    const log = await logOf(other);
    assert.match(log, /ended/);
    assert.match(log, /The build succeeded/);
    assert.equal((await manifest(other, { ...response, buildId })).status, 200);
    // A replica that follows needs the leader for a build that runs only.
    const leads = server(await replicas.leader());
    const follows = leads === one ? other : one;
    const manifests = async () =>
      (await leads.requests()).filter(({ path }) => path.includes('/manifests/')).length;
    await eventually('it sends the built image itself', async () => {
      const before = await manifests();
      assert.equal((await manifest(follows, { ...response, buildId })).status, 200);
      return (await manifests()) === before;
    });
    // The next leader has not written this log.
    await replicas.start(killed);
    const second = await killLeader();
    for (const at of second.others) assert.equal(await logOf(at), log);
    await replicas.start(second.killed);
  });

  test('an update fails no request through the balancer: to a version with the same schema and back, and of all to one with another schema', async () => {
    await using next = await makeNextVersion();
    const responses: ContainerResponse[] = [];
    const failures: string[] = [];
    let isDone = false;
    const { balancer } = replicas;
    const ask = async (body: object): Promise<ContainerResponse | undefined> => {
      const made = await fetch(`${balancer.url}/v1alpha2/container`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      const text = await made.text();
      if (!made.ok) {
        failures.push(`${made.status}: ${text}`);
        return undefined;
      }
      responses.push(JSON.parse(text) as ContainerResponse);
      return responses.at(-1);
    };
    const build = async () => {
      for (let round = 0; !isDone; round += 1) {
        const text = `FROM ${registry.host}/corpus/busybox:oci\nRUN echo ${round} && sleep 0.3\n`;
        const response = await ask({ containerFile: Buffer.from(text).toString('base64') });
        if (!response) continue;
        const status = `${balancer.url}/v1alpha1/builds/${response.buildId}/status`;
        for (let isOver = false; !isOver; ) {
          const found = await fetch(status);
          const body = await found.text();
          if (!found.ok) failures.push(`${found.status}: ${body}`);
          isOver = !found.ok || (JSON.parse(body) as { status: string }).status === 'COMPLETED';
        }
      }
    };
    const loop = async (name: string) => {
      for (let round = 0; !isDone; round += 1) {
        const response = await ask({
          containerImage: `${registry.host}/corpus/cfg:full`,
          containerConfig: { env: [`NAME=${name}-${round}`] },
        });
        if (!response) continue;
        const path = response.targetImage
          .replace(/^[^/]+/, '')
          .replace(/:([^:]+)$/, '/manifests/$1');
        const found = await fetch(`${balancer.url}/v2${path}`, { headers: { accept: '*/*' } });
        if (!found.ok) failures.push(`${found.status}: ${await found.text()}`);
        else await found.arrayBuffer();
      }
    };
    let pushes = 0;
    const push = async () => {
      for (; !isDone; pushes += 1) {
        const repository = new Repository(balancer, `team/pushed-${pushes}`, login);
        const pushed = await repository.pushImage('x', [randomBytes(1000)]);
        assert.equal(digestOf(expect(await repository.get('manifests/x'), 200).body), pushed);
      }
    };
    const loops = [...['a', 'b', 'c'].map(loop), build(), push()];
    await using list = await openReplicaList(replicas.database);
    const update = async (position: number, command?: readonly string[]) => {
      await server(position).stop();
      await replicas.start(position, {}, command);
      const [made, pushed] = [responses.length, pushes];
      await eventually('clients go on', () => responses.length > made && pushes > pushed);
      return (await list.list()).find(({ role }) => role === 'leader')?.version;
    };
    // The lead goes to the replica that started last: to the newer version, and back.
    const { version } = readVersion();
    const first = await replicas.leader();
    assert.equal(await update(first, next.command), version);
    assert.equal(await update(await replicas.leader()), next.version);
    await next.changeSchema();
    assert.equal(await update(first, next.command), version);
    const others = [...replicas.servers.keys()].filter(position => position !== first);
    const leads = [];
    for (const position of others) leads.push(await update(position, next.command));
    assert.equal(leads.at(-1), next.version);
    isDone = true;
    await Promise.all(loops);
    assert.deepEqual(failures, []);
    assert.ok(pushes > 2, String(pushes));
    assert.ok(responses.length > 2);
    assert.ok(responses.some(({ buildId }) => buildId !== undefined));
    for (const response of responses)
      assert.equal((await manifest(server(0), response)).status, 200);

    // The way back ends at the schema: a replica of the older version serves, and does not lead.
    const position = ((await replicas.leader()) + 1) % 3;
    await server(position).stop();
    const older = await replicas.start(position);
    for (const response of responses.slice(0, 3))
      assert.equal((await manifest(older, response)).status, 200);
    const run = async (...args: readonly string[]) =>
      sluiceCommand(['replicas', ...args], replicas.environment(position));
    const listed = JSON.parse((await run('list', '--json')).stdout);
    assert.deepEqual(
      listed.replicas
        .map((one: { role: string; version: string }) => `${one.role} ${one.version}`)
        .sort(),
      [
        `follower ${next.version}`,
        `leader ${next.version}`,
        `older version ${readVersion().version}`,
      ],
    );
    const refused = await run('lead', older.url);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /older than the schema of the database/);
  });
});
