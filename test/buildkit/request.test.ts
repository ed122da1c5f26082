/** Options on the wire, addresses, and names of registries. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  CredentialsRequestSchema,
  CredentialsResponseSchema,
} from '../../src/buildkit/gen/moby/filesync/v1/auth_pb.js';
import { type Credentials, memoryTree, parseAddress } from '../../src/buildkit/index.ts';
import { credentialsHandler } from '../../src/buildkit/session/auth-provider.ts';
import { solveInput } from '../../src/buildkit/solve-request.ts';

suite('the solve request', () => {
  test('with few options', () => {
    const { request, trees } = solveInput({ dockerfile: 'FROM scratch' }, 'ref');
    assert.deepEqual(request, {
      ...{ Ref: 'ref', Frontend: 'dockerfile.v0', FrontendAttrs: { filename: 'Dockerfile' } },
      ...{ Cache: { Imports: [], Exports: [] }, Entitlements: [], Internal: true },
      ...{ Exporters: [], ExporterDeprecated: '', ExporterAttrsDeprecated: {} },
    });
    assert.deepEqual([...trees.keys()], ['dockerfile', 'context']);
  });

  test('with all options', () => {
    const { request, trees } = solveInput(
      {
        ...{ dockerfile: 'FROM scratch', dockerfileName: 'dir/My.Dockerfile', target: 'last' },
        platforms: ['linux/amd64', 'linux/arm64'],
        ...{ buildArgs: { A: '1' }, labels: { b: '2' }, noCache: ['one', 'two'], pull: true },
        ...{ network: 'host', extraHosts: { a: '1.2.3.4', b: '::1' }, sourceDateEpoch: 0 },
        cacheNamespace: 'mine',
        namedContexts: { more: memoryTree({}), base: 'docker-image://x' },
        exporters: [
          {
            ...{ type: 'image', name: ['a', 'b'], push: true, insecure: true },
            ...{ compression: 'zstd', forceCompression: true, attrs: { x: 'y' } },
          },
          { type: 'tar', sink: () => Promise.reject(new Error('not opened')) },
        ],
        cacheImports: [{ type: 'registry', ref: 'c' }],
        cacheExports: [
          { type: 'registry', ref: 'c', insecure: true },
          { type: 'registry', ref: 'd', mode: 'min', required: true },
          { type: 'inline' },
        ],
        ...{ history: true, entitlements: ['security.insecure'], frontendAttrs: { 'x-y': 'z' } },
      },
      'ref',
    );
    const image = {
      ...{ name: 'a,b', push: 'true', 'registry.insecure': 'true', 'oci-mediatypes': 'true' },
      ...{ compression: 'zstd', 'force-compression': 'true', 'rewrite-timestamp': 'true', x: 'y' },
    };
    const cached = { 'image-manifest': 'true', 'oci-mediatypes': 'true' };
    const place = { ref: 'c', 'registry.insecure': 'true' };
    assert.deepEqual(request, {
      ...{ Ref: 'ref', Frontend: 'dockerfile.v0', Internal: false },
      FrontendAttrs: {
        ...{ filename: 'dir/My.Dockerfile', target: 'last', platform: 'linux/amd64,linux/arm64' },
        ...{ 'build-arg:A': '1', 'build-arg:SOURCE_DATE_EPOCH': '0', 'label:b': '2' },
        'build-arg:BUILDKIT_CACHE_MOUNT_NS': 'mine',
        ...{ 'no-cache': 'one,two', 'image-resolve-mode': 'pull', 'force-network-mode': 'host' },
        ...{ 'add-hosts': 'a=1.2.3.4,b=::1', 'x-y': 'z' },
        ...{ 'context:more': 'local:context-0', 'context:base': 'docker-image://x' },
        'cache-imports': '[{"Type":"registry","Attrs":{"ref":"c"}}]',
      },
      Entitlements: ['network.host', 'security.insecure'],
      Exporters: [
        { Type: 'image', Attrs: image },
        { Type: 'tar', Attrs: {} },
      ],
      ...{ ExporterDeprecated: 'image', ExporterAttrsDeprecated: image },
      Cache: {
        Imports: [{ Type: 'registry', Attrs: { ref: 'c' } }],
        Exports: [
          { Type: 'registry', Attrs: { ...place, ...cached, mode: 'max', 'ignore-error': 'true' } },
          { Type: 'registry', Attrs: { ref: 'd', ...cached, mode: 'min' } },
          { Type: 'inline', Attrs: {} },
        ],
      },
    });
    assert.deepEqual([...trees.keys()], ['dockerfile', 'context', 'context-0']);
  });
});

suite('addresses', () => {
  const known: [string, object][] = [
    ['unix:///run/b.sock', { kind: 'unix', path: '/run/b.sock' }],
    ['docker+unix:///var/run/docker.sock', { kind: 'docker', path: '/var/run/docker.sock' }],
    ['tcp://builder:1234', { kind: 'tcp', host: 'builder', port: 1234 }],
    ['tcp://[::1]:1234/', { kind: 'tcp', host: '::1', port: 1234 }],
  ];
  for (const [text, address] of known) {
    test(text, () => assert.deepEqual(parseAddress(text), address));
  }

  test('other addresses are refused', () => {
    for (const text of [
      '',
      '/run/b.sock',
      'unix://b.sock',
      'tcp://x',
      'tcp://x:0',
      'tcp://x:99999',
    ]) {
      assert.throws(() => parseAddress(text), TypeError, text);
    }
  });
});

suite('credentials', () => {
  async function ask(host: string, known: Record<string, Credentials>) {
    const secrets: string[] = [];
    const sent: Uint8Array[] = [];
    const handler = credentialsHandler(
      async name => known[name],
      secret => secrets.push(secret),
      () => {},
    );
    const request = toBinary(
      CredentialsRequestSchema,
      create(CredentialsRequestSchema, { Host: host }),
    );
    await handler.handle({
      header: () => [],
      messages: (async function* () {
        yield Buffer.from(request);
      })(),
      send: async bytes => void sent.push(bytes),
      signal: new AbortController().signal,
    });
    const { Username, Secret } = fromBinary(CredentialsResponseSchema, sent[0] ?? new Uint8Array());
    return { Username, Secret, secrets };
  }

  test('Docker Hub has one name; other registries require the exact name', async () => {
    const account = { username: 'u', password: 'p' };
    const known = { 'docker.io': account, 'registry.test': account };
    for (const host of ['docker.io', 'registry-1.docker.io', 'https://index.docker.io/v1/']) {
      assert.deepEqual(await ask(host, known), { Username: 'u', Secret: 'p', secrets: ['p'] });
    }
    for (const host of [
      'registry.test:443',
      'x.registry.test',
      'registry.test.x',
      'Registry.test',
    ]) {
      assert.deepEqual(await ask(host, known), { Username: '', Secret: '', secrets: [] });
    }
  });

  test('an identity token needs no user name', async () => {
    const response = await ask('a', { a: { identityToken: 'token' } });
    assert.deepEqual(response, { Username: '', Secret: 'token', secrets: ['token'] });
  });
});
