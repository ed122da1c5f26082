import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { Fault } from '../foundation/fault.ts';
import {
  createTransport,
  defaultRegistrySettings,
  faultOfError,
  type HttpRequest,
  readAll,
  type TransportLimits,
} from '../upstream/index.ts';
import { closedAddressIn } from '../upstream/transport/index.ts';
import { readHarborReport } from './scan-report.ts';
import type { Scanner } from './scanner.ts';
import { unusable } from './unusable-report.ts';

/** The operator's settings of the scanner. */
export interface AdapterSettings {
  readonly address: URL;
  /** Value of the header `authorization`; undefined for none. */
  readonly authorization: string | undefined;
  /** PEM text of certificate authorities, in addition to the public ones. */
  readonly ca: string | undefined;
  readonly allowPrivateAddress: boolean;
}

interface AdapterOptions {
  readonly connectMs: number;
  readonly limits: TransportLimits;
}

// Reading a larger report would hold up other requests.
const mostReportBytes = 6 * 1024 * 1024;
const mostDocumentBytes = 256 * 1024;
const responseMs = 30_000;
const usualPauseMs = 2000;
const shortestPauseMs = 100;
const longestPauseMs = 30_000;

const types = {
  metadata: 'application/vnd.scanner.adapter.metadata+json; version=1.0',
  request: 'application/vnd.scanner.adapter.scan.request+json; version=1.0',
  response: 'application/vnd.scanner.adapter.scan.response+json; version=1.0',
  report: 'application/vnd.security.vulnerability.report; version=1.1',
};
const metadataSchema = z.object({
  scanner: z.object({ name: z.string(), version: z.string().nullish() }),
  properties: z.record(z.string(), z.unknown()).nullish(),
});
const acceptedSchema = z.object({ id: z.string().regex(/^[\w.-]{1,200}$/) });
const databaseDate = 'harbor.scanner-adapter/vulnerability-database-updated-at';

/** Source: Harbor, Pluggable Image Vulnerability Scanning, scanner adapter API 1.1. */
export function createHarborAdapter(
  { address, authorization, ca, allowPrivateAddress }: AdapterSettings,
  { connectMs, limits }: AdapterOptions,
): Scanner {
  const settings = {
    ...defaultRegistrySettings,
    allowPrivateAddress,
    plainHttp: address.protocol === 'http:',
    ...(ca === undefined ? {} : { ca }),
  };
  // Its own connections: a slow scanner takes none from the registries.
  const transport = createTransport(
    new Map([[address.host, settings]]),
    { connectMs, headersMs: responseMs, idleMs: responseMs },
    [],
    limits,
  );
  const base = address.href.replace(/\/$/, '');

  const call = async (
    path: string,
    { accept, ...request }: Pick<HttpRequest, 'method' | 'body' | 'signal'> & { accept: string },
  ) => {
    const url = new URL(`${base}/api/v1/${path}`);
    const headers = {
      accept,
      ...(request.body === undefined ? {} : { 'content-type': types.request }),
      ...(authorization === undefined ? {} : { authorization }),
    };
    try {
      return await transport.send({ ...request, url, headers });
    } catch (error) {
      request.signal?.throwIfAborted();
      if (closedAddressIn(error)) {
        throw new Fault(
          'upstream',
          'The scanner is at a loopback, private or otherwise closed network address, which is refused: set scans.allowPrivateAddress',
          { phase: 'upstream' },
        );
      }
      throw faultOfError(error, { registry: address.host }, { what: 'the scan' }, 'The scanner');
    }
  };
  const json = async (response: Awaited<ReturnType<typeof call>>, most: number) => {
    const bytes = await readAll(response.body, most, 'The response of the scanner');
    try {
      return JSON.parse(bytes.toString()) as unknown;
    } catch {
      throw unusable('something that is not JSON');
    }
  };
  const refuse = (response: Awaited<ReturnType<typeof call>>): never => {
    response.body.destroy();
    throw new Fault('upstream', `The scanner answered ${response.status}: see its log`, {
      phase: 'upstream',
    });
  };

  return {
    async describe(signal) {
      const response = await call('metadata', { method: 'GET', accept: types.metadata, signal });
      if (response.status !== 200) return refuse(response);
      const read = metadataSchema.safeParse(await json(response, mostDocumentBytes));
      if (!read.success) throw unusable('metadata of a wrong form');
      const { scanner, properties } = read.data;
      return {
        name: `${scanner.name} ${scanner.version ?? ''}`.trim().slice(0, 100),
        database: String(properties?.[databaseDate] ?? '').slice(0, 100),
      };
    },

    async scan({ registry, repository, digest, mediaType }, { vulnerabilities }, signal) {
      const body = JSON.stringify({
        registry: { url: registry, authorization: '' },
        artifact: { repository, digest, mime_type: mediaType },
      });
      const accepted = await call('scan', { method: 'POST', accept: types.response, body, signal });
      if (accepted.status !== 202) return refuse(accepted);
      const read = acceptedSchema.safeParse(await json(accepted, mostDocumentBytes));
      if (!read.success) throw unusable('no usable id of the scan');
      for (;;) {
        const response = await call(`scan/${read.data.id}/report`, {
          method: 'GET',
          accept: types.report,
          signal,
        });
        if (response.status === 200) {
          return readHarborReport(await json(response, mostReportBytes), digest, vulnerabilities);
        }
        if (response.status !== 302) return refuse(response);
        response.body.destroy();
        // The address of the redirect is not used: it could lead anywhere.
        const asked = Number(response.headers.get('refresh-after') ?? Number.NaN) * 1000;
        const pause = Number.isNaN(asked) ? usualPauseMs : asked;
        await sleep(Math.min(Math.max(pause, shortestPauseMs), longestPauseMs), undefined, {
          signal,
        });
      }
    },

    close: transport.close,
  };
}
