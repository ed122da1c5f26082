import type { FaultKind } from '../../foundation/fault.ts';
import type { Hop } from '../transport/transport.ts';

/** One question to a repository. */
export interface Question {
  readonly method: Hop['method'];
  /** Below `/v2/<repository>/`; or the whole address, which a registry has given before. */
  readonly path: string | URL;
  readonly headers: Readonly<Record<string, string>>;
  /** What is asked for, for messages. */
  readonly what: string;
  /** What a 404 means. */
  readonly missing: FaultKind;
  readonly signal?: AbortSignal | undefined;
  /** Statuses that are an answer to this question and no failure. */
  readonly answers?: readonly number[];
  readonly isBlob?: boolean;
  readonly redirects?: 'follow' | 'handOn';
  /** What is sent along, opened for each try; its size is among the headers. */
  readonly body?: () => Promise<Hop['body']>;
  readonly headersMs?: number;
  /** Not tried again here: what was begun at the registry has to begin anew. */
  readonly isOnce?: boolean;
}
