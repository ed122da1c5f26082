/** Registries that hide a repository before the first push to it, as Quay and Artifactory do. */
import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, suite, test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';

type BuildResponse = ContainerResponse & { readonly buildId: string; readonly cached: boolean };

suite('a repository that is invisible before it exists', () => {
  let registry: Registry;
  let sluice: Sluice;
  let image: string;
  let isOpen = true;

  const refuse = (response: ServerResponse) => {
    response.writeHead(403, { 'content-type': 'application/json' });
    response.end('{"errors":[{"code":"DENIED","message":"you may not"}]}');
  };
  /** Passes a request to the registry, and returns its response, except reports of missing content. */
  const relay = (incoming: IncomingMessage, response: ServerResponse) => {
    const { method = 'GET', url: path = '/', headers } = incoming;
    if (!isOpen && method === 'POST') return refuse(response);
    const { hostname, port } = new URL(registry.url);
    const onward = request({ hostname, port, method, path, headers }, reply => {
      const { statusCode = 500 } = reply;
      const isHidden = statusCode === 404 && path.includes('/manifests/');
      if (isHidden) {
        reply.resume();
        return refuse(response);
      }
      response.writeHead(statusCode, reply.headers);
      reply.pipe(response);
    });
    incoming.pipe(onward);
  };
  const gate = createServer(relay);
  const host = () => `127.0.0.1:${(gate.address() as AddressInfo).port}`;

  before(async () => {
    registry = await startRegistry();
    image = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference ?? '';
    await new Promise<void>(resolve => gate.listen(0, '127.0.0.1', resolve));
    sluice = await startSluice({
      config: {
        limits: { builds: { anonymous: 'off' } },
        registries: { [registry.host]: { plainHttp: true }, [host()]: { plainHttp: true } },
      },
    });
  });
  after(async () => {
    await sluice?.stop();
    gate.closeAllConnections();
    gate.close();
    await registry?.stop();
  });

  const freeze = async (repository: string): Promise<BuildResponse> => {
    const body = { containerImage: image, containerConfig: { env: ['A=1'] }, freeze: true };
    return (await sluice.request({
      ...body,
      buildRepository: `${host()}/${repository}`,
    })) as BuildResponse;
  };

  test('a caller with push access creates it, and it is found from then on', async () => {
    const begun = await freeze('team/new');
    assert.equal(begun.cached, false);
    const path = `/v1alpha1/builds/${begun.buildId}/logs?follow=true`;
    const log = await (await sluice.fetch(path)).text();
    const again = await freeze('team/new');
    assert.deepEqual([again.cached, again.buildId], [true, begun.buildId], log);
  });

  test('a caller without push access is refused', async () => {
    isOpen = false;
    await assert.rejects(freeze('team/other'), /403: .*'buildRepository': .* refused access/);
  });
});
