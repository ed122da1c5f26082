/** The identity of a build at the registries that it pulls from and pushes to. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import {
  type Credentials,
  memoryTree,
  type TokenRequest,
  type TokenSource,
} from '../../src/buildkit/index.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type BuildWorld, baseImage, failureOf, startBuildWorld } from './build-world.ts';

const dockerfileOf = (base: string) => `FROM ${base}\nRUN echo hello > /hello\n`;

// In sequence: simultaneous builds share what one of them was allowed to resolve.
suite('registries', () => {
  let world: BuildWorld;
  let registries: Record<'basic' | 'bearer', Registry>;
  before(async () => {
    world = await startBuildWorld();
    registries = {
      basic: await startRegistry({ auth: 'basic' }),
      bearer: await startRegistry({ auth: 'bearer' }),
    };
    for (const registry of Object.values(registries)) await pushCorpus(registry, [baseImage]);
  });
  after(async () => {
    await registries?.basic.stop();
    await registries?.bearer.stop();
    await world?.close();
  });

  const accountOf = ({ username, password }: Registry): Credentials => ({ username, password });
  const wrong: Credentials = { username: 'tester', password: 'not-the-one' };

  for (const kind of ['basic', 'bearer'] as const) {
    test(`${kind}: pull, push, and a cache, with the account of that registry`, async () => {
      const registry = registries[kind];
      const asked: string[] = [];
      const ref = `${registry.host}/cache/${kind}:1`;
      const result = await world.build({
        dockerfile: dockerfileOf(`${registry.host}/corpus/busybox:oci`),
        credentials: async host => {
          asked.push(host);
          return host === registry.host ? accountOf(registry) : undefined;
        },
        exporters: [{ type: 'image', name: `${registry.host}/out/${kind}:1`, push: true }],
        cacheExports: [{ type: 'registry', ref, required: true }],
        cacheImports: [{ type: 'registry', ref }],
      });
      assert.match(result.digest ?? '', /^sha256:/);
      assert.deepEqual([...new Set(asked)], [registry.host]);
    });

    test(`${kind}: a wrong password, and no password, for a base image`, async () => {
      const dockerfile = dockerfileOf(`${registries[kind].host}/corpus/busybox:oci`);
      for (const credentials of [wrong, undefined]) {
        const error = await failureOf(
          world.build({ dockerfile, credentials: async () => credentials }),
        );
        assert.equal(error.kind, 'base', error.message);
        assert.match(error.message, /401|unauthorized|authorization failed|insufficient_scope/i);
        assert.equal(error.source?.line, 1);
        assert.doesNotMatch(JSON.stringify(error) + error.message, /not-the-one/);
      }
    });

    test(`${kind}: a wrong password, and no password, for a push`, async () => {
      const exporter = { type: 'image' as const, push: true };
      for (const credentials of [wrong, undefined]) {
        const error = await failureOf(
          world.build({
            dockerfile: 'FROM scratch\nCOPY a /a\n',
            context: memoryTree({ a: 'a' }),
            credentials: async () => credentials,
            exporters: [{ ...exporter, name: `${registries[kind].host}/out/no:1` }],
          }),
        );
        assert.equal(error.kind, 'push', error.message);
        assert.doesNotMatch(JSON.stringify(error) + error.message, /not-the-one/);
      }
    });
  }

  /** Requests tokens in place of the builder, from the token service in the challenge. */
  const tokensOf = (registry: Registry, asked: TokenRequest[] = []): TokenSource => ({
    covers: async host => host === registry.host,
    async fetch(request) {
      asked.push(request);
      const url = new URL(request.realm);
      url.searchParams.set('service', request.service);
      for (const scope of request.scopes) url.searchParams.append('scope', scope);
      const authorization = `Basic ${btoa(`${registry.username}:${registry.password}`)}`;
      const response = await fetch(url, { headers: { authorization } });
      const { token } = (await response.json()) as { token: string };
      return { token, lifeSeconds: 60 };
    },
  });

  // Separate registries: the builder's memory of the others would make it request credentials.
  const startBearer = async () => {
    const bearer = await startRegistry({ auth: 'bearer' });
    await pushCorpus(bearer, [baseImage]);
    return bearer;
  };

  test('tokens that are fetched for the builder: pull, push, and cache, without a password', async () => {
    const { basic } = registries;
    await using bearer = await startBearer();
    const asked: TokenRequest[] = [];
    const hosts: string[] = [];
    const ref = `${bearer.host}/cache/tokens:1`;
    await world.build({
      dockerfile: `FROM ${bearer.host}/corpus/busybox:oci AS base\nRUN echo tokens > /hello\nFROM ${basic.host}/corpus/busybox:oci\nCOPY --from=base /hello /\n`,
      tokens: tokensOf(bearer, asked),
      credentials: async host => {
        hosts.push(host);
        return host === basic.host ? accountOf(basic) : undefined;
      },
      exporters: [{ type: 'image', name: `${bearer.host}/out/tokens:1`, push: true }],
      cacheExports: [{ type: 'registry', ref, required: true }],
      cacheImports: [{ type: 'registry', ref }],
    });
    assert.deepEqual(
      [...new Set(hosts)],
      [basic.host],
      'the password of the other one is not requested',
    );
    assert.deepEqual(new Set(asked.map(({ host }) => host)), new Set([bearer.host]));
    const scopes = asked.flatMap(request => request.scopes);
    assert.ok(scopes.includes('repository:corpus/busybox:pull'));
    assert.ok(scopes.includes('repository:out/tokens:pull,push'));
  });

  test('denied tokens: the error has the reason and the requested access', async () => {
    await using bearer = await startBearer();
    const tokens: TokenSource = {
      covers: async () => true,
      fetch: () => Promise.reject(new Error('there is no right to that')),
    };
    const dockerfile = dockerfileOf(`${bearer.host}/corpus/busybox:oci`);
    const base = await failureOf(world.build({ dockerfile, tokens }));
    assert.equal(base.kind, 'base', base.message);
    const push = await failureOf(
      world.build({
        dockerfile: 'FROM scratch\nCOPY a /a\n',
        context: memoryTree({ a: 'a' }),
        tokens,
        exporters: [{ type: 'image', name: `${bearer.host}/out/none:1`, push: true }],
      }),
    );
    assert.equal(push.kind, 'push', push.message);
    for (const { message } of [base, push]) assert.match(message, /there is no right to that/);
  });

  test('the token source fails', async () => {
    await using bearer = await startBearer();
    const error = await failureOf(
      world.build({
        dockerfile: dockerfileOf(`${bearer.host}/corpus/busybox:oci`),
        tokens: {
          ...tokensOf(bearer),
          covers: () => Promise.reject(new Error('the vault is closed')),
        },
      }),
    );
    assert.equal(error.kind, 'session');
    assert.match(error.message, /the vault is closed/);
  });

  test('two registries in one build, each with its own account', async () => {
    const { basic, bearer } = registries;
    const accounts = new Map([basic, bearer].map(registry => [registry.host, accountOf(registry)]));
    const { digest } = await world.build({
      dockerfile: dockerfileOf(`${basic.host}/corpus/busybox:oci`),
      credentials: async host => accounts.get(host),
      exporters: [
        {
          type: 'image',
          name: `${bearer.host}/out/one:1,${world.registry.host}/out/one:1`,
          push: true,
        },
      ],
    });
    assert.equal(
      (await world.manifest('out/one', '1')).mediaType,
      'application/vnd.oci.image.manifest.v1+json',
    );
    assert.ok(digest);
  });

  test('the credential source fails', async () => {
    const error = await failureOf(
      world.build({
        dockerfile: dockerfileOf(`${registries.basic.host}/corpus/busybox:oci`),
        credentials: () => Promise.reject(new Error('the vault is closed')),
      }),
    );
    assert.equal(error.kind, 'session');
    assert.match(error.message, /the vault is closed/);
  });

  test('a registry that serves plain HTTP under a host name', async () => {
    const name = `localhost:${new URL(world.registry.url).port}/named/plain:1`;
    const { names } = await world.build({
      dockerfile: 'FROM scratch\nCOPY a /a\n',
      context: memoryTree({ a: 'a' }),
      exporters: [{ type: 'image', name, push: true, insecure: true }],
    });
    assert.deepEqual(names, [name]);
  });
});
