import type { SentPage } from './index-page.ts';
import type { ProjectVersion } from './versions-in-page.ts';

/** What the thread answers: the page for the solver or the versions on it, or what is wrong with the page of the index. */
export type PageThreadResponse =
  | { readonly page: Uint8Array }
  | { readonly versions: readonly ProjectVersion[] }
  | { readonly problem: string };

/** What the thread is asked for. */
export type PageOrder = { readonly sent: SentPage } | { readonly kept: Uint8Array };

/** Returns what can be handed to another thread of some bytes: nothing where other bytes are in the same memory. */
export function ownMemory({ buffer, byteLength }: Uint8Array): ArrayBuffer[] {
  return buffer instanceof ArrayBuffer && buffer.byteLength === byteLength ? [buffer] : [];
}
