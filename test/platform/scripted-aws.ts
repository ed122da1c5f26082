import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface AwsCall {
  /** `ecr`, `ecr-public` or `sts`, as the signature is for. */
  readonly service: string;
  readonly region: string;
  readonly accessKey: string;
  readonly sessionToken: string | undefined;
  readonly body: string;
}

export interface ScriptedAws extends AsyncDisposable {
  readonly url: string;
  readonly calls: AwsCall[];
  /** Valid access keys. */
  readonly accounts: Set<string>;
  /** External ids by role. */
  readonly roles: Map<string, string>;
  /** When passwords expire, ms since the epoch. */
  expiresAt: number;
  /** Statuses for the first requests, before regular answers. */
  readonly failures: number[];
}

const signature =
  /Credential=([^/]+)\/\d{8}\/([^/]+)\/([^/]+)\/aws4_request,.*Signature=[0-9a-f]{64}/;

/** ECR, ECR Public and STS on one free port of 127.0.0.1. Checks the caller, and not the signature. */
export async function startScriptedAws(): Promise<ScriptedAws> {
  const calls: AwsCall[] = [];
  const accounts = new Set<string>();
  const roles = new Map<string, string>();
  const failures: number[] = [];

  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const [, accessKey = '', region = '', service = ''] =
      signature.exec(request.headers.authorization ?? '') ?? [];
    const sessionToken = request.headers['x-amz-security-token'] as string | undefined;
    calls.push({ service, region, accessKey, sessionToken, body });
    const respond = (status: number, text: string) => {
      const type = service === 'sts' ? 'text/xml' : 'application/x-amz-json-1.1';
      response.writeHead(status, { 'content-type': type }).end(text);
    };
    const refuse = (kind: string) =>
      respond(
        service === 'sts' ? 403 : 400,
        service === 'sts'
          ? `<ErrorResponse><Error><Type>Sender</Type><Code>${kind}</Code><Message>${accessKey} may not</Message></Error></ErrorResponse>`
          : JSON.stringify({ __type: kind, message: `${accessKey} may not` }),
      );
    const failure = failures.shift();
    if (failure !== undefined) return respond(failure, '');
    if (!accounts.has(accessKey)) return refuse('UnrecognizedClientException');
    if (service === 'sts') {
      const form = new URLSearchParams(body);
      const role = form.get('RoleArn') ?? '';
      if (roles.get(role) !== (form.get('ExternalId') ?? '')) return refuse('AccessDenied');
      accounts.add('ASIATAKEN');
      return respond(
        200,
        `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials><AccessKeyId>ASIATAKEN</AccessKeyId><SecretAccessKey>taken-secret</SecretAccessKey><SessionToken>taken-session</SessionToken><Expiration>2037-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`,
      );
    }
    const data = {
      authorizationToken: Buffer.from(`AWS:password-${calls.length}`).toString('base64'),
      expiresAt: scripted.expiresAt / 1000,
    };
    respond(200, JSON.stringify({ authorizationData: service === 'ecr' ? [data] : data }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');

  const scripted: ScriptedAws = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    accounts,
    roles,
    failures,
    expiresAt: Date.now() + 12 * 3_600_000,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
  return scripted;
}
