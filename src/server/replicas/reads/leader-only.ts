/** Only the leader can answer the request: it is handed on. */
export class LeaderOnly extends Error {
  constructor(why: string) {
    super(`the leader answers: ${why}`);
    this.name = 'LeaderOnly';
  }
}

/** Returns a function that leaves the request to the leader. */
export function leaderOnly(why: string): () => Promise<never> {
  return async () => {
    throw new LeaderOnly(why);
  };
}
