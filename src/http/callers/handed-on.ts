import { timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { stateOf } from '../request-state.ts';

/** Headers of a request that a replica hands on to the one that leads. */
export const handedOnHeaders = {
  /** Proves that a replica sends it. In the response: `follows`, from a replica that does not lead. */
  proof: 'sluice-replica',
  /** Address of the client, or of its proxy, that connected to that replica. */
  peer: 'sluice-peer',
  /**
   * The replica can send a blob itself; `look`: it sends the blob, and asks whether the right still holds. In the
   * response: the body says which one.
   */
  order: 'sluice-order',
  /** The body has pulls that the replica answers, see `ReportedPull`. */
  pulls: 'sluice-pulls',
  /** News for a former leader, see `LeadNews`: another replica leads. */
  leads: 'sluice-leads',
} as const;

/**
 * Returns true for a request that another replica has handed on, and notes that in its state. Its peer is then the one
 * that connected to that replica. Anybody can invent the headers, except for the proof.
 */
export function admitHandedOn(request: IncomingMessage, proof: string): boolean {
  const { [handedOnHeaders.proof]: given, [handedOnHeaders.peer]: peer } = request.headers;
  const order = request.headers[handedOnHeaders.order];
  if (typeof given !== 'string' || typeof peer !== 'string') return false;
  const [one, other] = [Buffer.from(given), Buffer.from(proof)];
  if (one.length !== other.length || !timingSafeEqual(one, other)) return false;
  stateOf(request).handedOn = { peer, order };
  return true;
}
