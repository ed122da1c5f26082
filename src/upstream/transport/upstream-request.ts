import type { FaultKind } from '../../foundation/fault.ts';
import type { HttpRequest } from './transport.ts';

/** One request to a repository. */
export interface UpstreamRequest {
  readonly method: HttpRequest['method'];
  /** Path below `/v2/<repository>/`, or a whole address that a registry returned before. */
  readonly path: string | URL;
  readonly headers: Readonly<Record<string, string>>;
  /** Name of the requested content, for messages. */
  readonly what: string;
  /** The meaning of a 404. */
  readonly missing: FaultKind;
  readonly signal?: AbortSignal | undefined;
  /** Error statuses that count as a response to this request. */
  readonly acceptedStatuses?: readonly number[];
  readonly isBlob?: boolean;
  readonly redirects?: 'follow' | 'handOn';
  /** Its size is in the headers. */
  readonly body?: Buffer;
  /** The blob that a PUT sends, opened for each try. */
  readonly upload?: () => Promise<HttpRequest['upload']>;
  readonly headersMs?: number;
  /** True to disable retries: the upload at the registry must start again. */
  readonly isOnce?: boolean;
}
