/** Builders behind one name that come and go, how many builds each gets, and name services that fail. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, suite, test } from 'node:test';
import { createBuilders } from '../../src/builds/builder/builders.ts';
import { createAddressesOf } from '../../src/builds/builder/named-builders.ts';
import { domainOfCaller } from '../../src/builds/domain.ts';
import { createLogger } from '../../src/foundation/telemetry.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import {
  type Certificates,
  makeCertificates,
  makeClientCertificate,
} from '../world/certificates.ts';
import { eventually } from '../world/eventually.ts';
import { freePort } from '../world/free-port.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { serverCommand } from '../world/server-command.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';

const name = 'workers.test';
const user = domainOfCaller({ owner: 'one', isTrusted: true });

suite('workers behind a name', () => {
  let directory: TempDir;
  let certificates: Certificates;
  let port: number;
  let first: Buildkitd;
  let second: Buildkitd;
  let registry: Registry;
  let base: string;

  before(async () => {
    directory = await makeTempDir('workers');
    certificates = await makeCertificates(directory.join('tls'), [name]);
    port = await freePort();
    const start = (host: string) =>
      startBuildkitd({ tls: certificates, tcpAddress: `tcp://${host}:${port}` });
    [first, second] = await Promise.all([start('127.0.0.1'), start('127.0.0.2')]);
    registry = await startRegistry();
    base = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference ?? '';
  });
  after(async () => {
    await Promise.all([first?.stop(), second?.stop(), registry?.stop()]);
    await directory?.remove();
  });

  test('a new worker gets builds, a full one none, and one that leaves finishes those it has', async () => {
    const hosts = directory.join('hosts');
    const list = (...addresses: readonly string[]) =>
      writeFile(
        hosts,
        ['127.0.0.1 localhost', ...addresses.map(one => `${one} ${name}`), ''].join('\n'),
      );
    await list('127.0.0.1');
    const address = `dns+tcp://${name}:${port}`;
    const client = await makeClientCertificate(certificates);
    const done = new Set<string>();
    // A step runs until it may end.
    const signals = createServer((request, response) => {
      response.writeHead(done.has(request.url ?? '') ? 200 : 404).end();
    }).listen(0, '127.0.0.1');
    const at = () => (signals.address() as AddressInfo).port;
    const command = ['unshare', '--mount', '--propagation', 'private', 'sh', '-c'];
    const sluice = await startSluice({
      config: {
        buildkit: [address],
        buildkitTls: { [address]: { ca: certificates.authority, ...client } },
        buildkitShares: { [address]: { builds: 1 } },
        builds: { concurrent: 4, syntax: 'builder' },
        registries: { [registry.host]: { plainHttp: true } },
      },
      command: [
        ...[...command, 'mount --bind "$0" /etc/hosts && exec "$@"', hosts],
        ...serverCommand(),
      ],
    });
    try {
      const begin = async (step: string) => {
        const wait = `until wget -q -O /dev/null http://127.0.0.1:${at()}/${step}; do sleep 0.1; done`;
        const recipe = `FROM ${base}\nRUN ${wait}\n`;
        const { buildId = '' } = await sluice.request({
          containerFile: Buffer.from(recipe).toString('base64'),
        });
        return buildId;
      };
      const end = async (step: string, id: string) => {
        done.add(`/${step}`);
        assert.match(await logOf(sluice, id), /The build succeeded/);
      };
      const runsAt = async (one: Buildkitd) => (await one.containerProcesses()).length > 0;

      const a = await begin('a');
      await eventually('the first worker builds', () => runsAt(first));
      const b = await begin('b');
      assert.equal(await runsAt(second), false);
      await list('127.0.0.1', '127.0.0.2');
      await eventually('the new worker builds', () => runsAt(second));

      await list('127.0.0.2');
      const c = await begin('c');
      await end('b', b);
      await eventually('the worker that stays builds', () => runsAt(second));
      assert.equal(await runsAt(first), true);
      await end('a', a);
      await eventually('the other one has nothing to do', async () => !(await runsAt(first)));
      await end('c', c);
      assert.equal(await runsAt(first), false);
    } finally {
      await sluice.stop();
      signals.close();
    }
  });

  test('a worker gets builds by its weight, and no more than it may have', async () => {
    const found = [
      { address: first.address, isOpen: true, share: { weight: 3, builds: 5 } },
      { address: second.address, isOpen: true },
    ];
    const source = {
      find: async () => found,
      canStart: async () => false,
      untilInstalled: async () => {},
      isComing: () => false,
      isClosedTo: () => false,
      troubles: () => [],
    };
    const builders = createBuilders({ source, log: createLogger('silent') });
    const { promise: all, resolve: release } = Promise.withResolvers<void>();
    const signal = new AbortController().signal;
    const use = () =>
      builders.use({ domain: user, platforms: [] }, signal, async () => {
        await all;
      });
    const loads = () => builders.states().map(({ running }) => running);
    const running: Promise<void>[] = [];
    for (const expected of [
      [1, 0],
      [2, 0],
      [3, 0],
      [3, 1],
      [4, 1],
      [5, 1],
      [5, 2],
      [5, 3],
    ]) {
      running.push(use());
      await eventually(`${expected} builds`, () => String(loads()) === String(expected));
    }
    release();
    await Promise.all(running);
    assert.deepEqual(loads(), [0, 0]);
    await builders.close();
  });
});

async function logOf(sluice: Sluice, id: string): Promise<string> {
  return (await sluice.fetch(`/v1alpha1/builds/${id}/logs?follow=true`)).text();
}

test('a name service that fails or hangs takes away no builder; one without an address does', async () => {
  let at = 0;
  let respond = async () => [{ address: '10.0.0.2', family: 4 }];
  const addressesOf = createAddressesOf(
    async () => respond(),
    () => at,
  );
  const ask = () => {
    at += 60_000;
    return addressesOf('dns+tcp://workers.example.com:1234');
  };
  const failing = (code: string) => async () => {
    throw Object.assign(new Error(code), { code });
  };
  assert.deepEqual(await addressesOf('tcp://10.0.0.1:1234'), ['tcp://10.0.0.1:1234']);
  respond = failing('EAI_AGAIN');
  assert.deepEqual(await ask(), ['tcp://workers.example.com:1234']);
  respond = async () => [
    { address: '2001:db8::1', family: 6 },
    { address: '10.0.0.2', family: 4 },
  ];
  const both = ['tcp://10.0.0.2:1234', 'tcp://[2001:db8::1]:1234'];
  assert.deepEqual(await ask(), both);
  respond = failing('EAI_AGAIN');
  assert.deepEqual(await ask(), both);
  respond = failing('ENOTFOUND');
  assert.deepEqual(await ask(), ['tcp://workers.example.com:1234']);
  respond = async () => [{ address: '10.0.0.3', family: 4 }];
  assert.deepEqual(await ask(), ['tcp://10.0.0.3:1234']);
  respond = () => new Promise(() => {});
  assert.deepEqual(await ask(), ['tcp://10.0.0.3:1234']);
});
