import type { Ask, FuzzWorld } from './ask.ts';
import { jsonText, mutatedJson } from './json.ts';
import type { Random } from './random.ts';
import { oddText } from './texts.ts';

const methods = ['GET', 'POST', 'DELETE', 'HEAD', 'PUT', 'PATCH', 'OPTIONS'];

type Route = readonly [method: string, path: string, body?: unknown];

/** Requests to the built-in platform. */
export function platformAsk(random: Random, world: FuzzWorld): Ask {
  const number = random.pick(['1', '2', '999999999999999', '-1', 'x', '%00', '']);
  const credentials = {
    name: `n${random.int(20)}`,
    provider: random.pick(['container-reg', 'aws', 'google', 'azure', 'github', 'x']),
    keys: { registry: 'quay.io', userName: 'a', password: 'b', accessKey: 'c', secretKey: 'd' },
  };
  const routes: readonly Route[] = [
    ['GET', '/user-info'],
    [
      'GET',
      `/users?max=${number}&offset=${number}&email=${encodeURIComponent(oddText(random).toWellFormed())}`,
    ],
    ['POST', '/users', { email: `u${random.int(20)}@example.org` }],
    ['DELETE', `/users/${number}`],
    ['GET', '/tokens'],
    ['POST', '/tokens', { name: `t${random.int(5)}`, expiration: '2030-01-01T00:00:00Z' }],
    ['DELETE', `/tokens/${number}9`],
    ['GET', '/workspaces'],
    ['POST', '/workspaces', { name: `w${random.int(20)}` }],
    ['GET', `/workspaces/${number}/members`],
    ['POST', `/workspaces/${number}/members`, { user: 'fuzz@example.org' }],
    ['DELETE', `/workspaces/${number}/members/${number}`],
    ['GET', `/credentials?workspaceId=${number}`],
    ['POST', '/credentials', { credentials }],
    ['GET', `/credentials/${number}`],
    ['GET', `/credentials/${number}/keys?pairingId=${number}&workspaceId=${number}&workflowId=x`],
    ['DELETE', `/credentials/${number}`],
    ['GET', random.pick(['/service-info', '/openapi.json', '/', '', '/oauth/access_token'])],
  ];
  const [method, path, body] = random.pick(routes);
  return {
    method: random.once(10) ? random.pick(methods) : method,
    target: random.pick(['/platform', '/platform/api']) + path,
    headers: [
      ['content-type', random.once(20) ? 'text/plain' : 'application/json'],
      ...(random.once(5) ? [] : [['authorization', random.pick(world.authorizations)] as const]),
      ...(random.once(10) ? [['accept-version', random.pick(['1', '2', 'x'])] as const] : []),
    ],
    ...(body === undefined
      ? {}
      : { body: jsonText(random, random.once(4) ? body : mutatedJson(random, body)) }),
  };
}
