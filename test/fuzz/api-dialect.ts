import type { Ask, FuzzWorld } from './ask.ts';
import { jsonText, mutatedJson } from './json.ts';
import type { Random } from './random.ts';
import { oddText } from './texts.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');
const methods = ['GET', 'POST', 'DELETE', 'HEAD', 'PUT', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND'];

/** Requests to the JSON API. */
export function apiAsk(random: Random, world: FuzzWorld): Ask {
  const [method, path, body] = random.pick(routes(random, world));
  const isBody = body !== undefined && !random.once(20);
  return {
    method: random.once(8) ? random.pick(methods) : method,
    target: path,
    headers: [
      ...(isBody
        ? [['content-type', random.once(20) ? 'text/plain' : 'application/json'] as const]
        : []),
      ...(random.once(4) ? [['authorization', random.pick(world.authorizations)] as const] : []),
    ],
    ...(isBody
      ? { body: jsonText(random, random.once(5) ? body : mutatedJson(random, body)) }
      : {}),
  };
}

type Route = readonly [method: string, path: string, body?: unknown];

function routes(random: Random, world: FuzzWorld): readonly Route[] {
  const { containerToken, buildId, image, accessToken } = world;
  const id = random.once(3) ? encodeURIComponent(oddText(random).toWellFormed()) : buildId;
  const token = random.once(3)
    ? encodeURIComponent(oddText(random).toWellFormed())
    : containerToken;
  const day = random.pick(['2026-01-01', '2026-13-45', '', 'x']);
  const container = random.pick(containerBodies(image, accessToken));
  return [
    ['POST', '/v1alpha2/container', container],
    ['POST', '/v1alpha2/container', container],
    ['POST', '/v1alpha2/container', container],
    ['POST', '/container-token', container],
    ['GET', `/v1alpha2/container/${token}`],
    ['GET', `/v1alpha2/container/${token}/status`],
    ['GET', `/container-token/${token}`],
    ['DELETE', `/container-token/${encodeURIComponent(oddText(random).toWellFormed())}`],
    ['GET', `/v1alpha1/builds/${id}`],
    ['GET', `/v1alpha1/builds/${id}/status`],
    ['GET', `/v1alpha1/builds/${id}/logs`],
    ['GET', `/v1alpha1/builds/${id}/condalock`],
    ['GET', `/v1alpha1/builds/${id}/lock`],
    ['GET', `/v1alpha1/builds/${id}/sbom`],
    ['DELETE', `/v1alpha1/builds/${id}`],
    [
      'POST',
      `/v1alpha1/inspect?platform=${random.pick(['all', 'linux/arm64', 'x', '%00', ''])}`,
      { containerImage: image },
    ],
    ['POST', '/v1alpha2/validate-creds', { registry: world.host, userName: 'a', password: 'b' }],
    ['POST', '/validate-creds', { request: { registry: image, userName: 'a', password: 'b' } }],
    ['GET', `/view/builds/${id}`],
    ['GET', `/view/containers/${token}`],
    [
      'GET',
      `/v1alpha${random.pick(['2', '3'])}/metrics/${random.pick(['builds', 'pulls', 'mounted/pulls', 'x'])}?date=${day}`,
    ],
    [
      'GET',
      random.pick([
        '/service-info',
        '/healthz',
        '/health',
        '/readyz',
        '/metrics',
        '/openapi.json',
        '/docs',
        '/',
      ]),
    ],
  ];
}

function containerBodies(image: string, platformAccessToken: string): readonly object[] {
  const empty = 'H4sIAAAAAAAAA+3BAQ0AAADCoPdPbQ43oAAAAAAAAAAAAIA3A5reHScAKAAA';
  return [
    { containerImage: image },
    { containerImage: image, containerConfig: { env: ['A=b'], cmd: ['a'], workingDir: '/a' } },
    { containerImage: image, containerConfig: { layers: [{ location: `data:${empty}` }] } },
    { containerImage: image, containerConfig: { layers: [{ location: 'http://127.0.0.1:1/a' }] } },
    {
      containerImage: image,
      platformAccessToken,
      platformWorkspaceId: 1,
      timestamp: '2026-01-01T00:00:00Z',
    },
    { containerImage: image, dryRun: true, containerPlatform: 'linux/amd64', fingerprint: 'x' },
    {
      containerFile: base64(`FROM ${image}\nARG A=b\nRUN <<E\na\nE\nCOPY --from=0 a b`),
      dryRun: true,
    },
    { containerFile: base64(`FROM ${image}`), namedContexts: { [image]: image }, dryRun: true },
    { containerFile: base64(`FROM ${image}`), buildContext: { location: `data:${empty}` } },
    { condaFile: base64('dependencies:\n- a=1\n- pip: [b]\n'), dryRun: true },
    { packages: { type: 'CONDA', entries: ['a=1', 'pip:b'], channels: ['c'] }, dryRun: true },
    { packages: { type: 'CONDA', environment: base64('dependencies: [a]') }, nameStrategy: 'none' },
    {
      containerFile: base64(`Bootstrap: docker\nFrom: ${image}\n%post\na\n`),
      ...{ format: 'sif', freeze: true, buildRepository: '127.0.0.1:1/a/b', dryRun: true },
    },
    { containerImage: image, freeze: true, buildRepository: '127.0.0.1:1/a/b' },
  ];
}
