/** Who may do something: everybody, callers who have logged in, nobody. */
export type Openness = 'open' | 'login' | 'off';

/** Who may use what this server offers. */
export interface AccessRules {
  /** Container requests, image metadata, checks of credentials. */
  readonly requests: Openness;
  /** Images that are built, frozen or converted. */
  readonly builds: Openness;
  /** Pulls of served names. */
  readonly pulls: Openness;
}
