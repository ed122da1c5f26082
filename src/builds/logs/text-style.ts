// Codes of decorations by the code that ends them. Source: ECMA-48, 8.3.117 (SGR). Blinking and hidden text are not kept.
const endsOf = new Map([
  [22, [1, 2]],
  [23, [3]],
  [24, [4]],
  [27, [7]],
  [29, [9]],
]);
const decorations = new Set([...endsOf.values()].flat());
const longest = 64;

/** The colours and decorations that a program has set for its output. */
export class TextStyle {
  #front = '';
  #ground = '';
  readonly #decorations = new Set<number>();
  #sequence = '';

  /** The one sequence that sets all of it, whatever was set before; empty for plain text. */
  get sequence(): string {
    return this.#sequence;
  }

  /** Applies the parameters of a sequence for colours, such as `1;31`. Ignores unknown ones. */
  apply(parameters: string): void {
    if (parameters.length > longest) return;
    const codes = parameters.split(';');
    for (let at = 0; at < codes.length; at += 1) {
      const [first = '', ...parts] = (codes[at] ?? '').split(':');
      const code = Number(first);
      if (code !== 38 && code !== 48) {
        this.#set(parts[0] === '0' && code === 4 ? 24 : code);
        continue;
      }
      // `38:2::1:2:3` has an empty part for the colour space; `38;2;1;2;3` has none.
      const isOne = parts.length > 0;
      const [kind = '', ...values] = isOne ? parts : codes.slice(at + 1, at + 5);
      const own = kind === '5' ? values.slice(0, 1) : kind === '2' ? values.slice(-3) : [];
      if (!isOne) at += 1 + own.length;
      if (own.length === 0 || !own.every(value => value !== '' && Number(value) < 256)) continue;
      const colour = `;${code};${kind};${own.map(Number).join(';')}`;
      if (code === 38) this.#front = colour;
      else this.#ground = colour;
    }
    const set = [...this.#decorations].sort().map(code => `;${code}`);
    const all = set.join('') + this.#front + this.#ground;
    this.#sequence = all === '' ? '' : `\u001b[0${all}m`;
  }

  #set(code: number): void {
    if (code === 0) {
      this.#front = '';
      this.#ground = '';
      this.#decorations.clear();
    } else if (decorations.has(code)) this.#decorations.add(code);
    else if (endsOf.has(code))
      for (const one of endsOf.get(code) ?? []) this.#decorations.delete(one);
    else if (code === 39) this.#front = '';
    else if (code === 49) this.#ground = '';
    else if ((code >= 30 && code < 38) || (code >= 90 && code < 98)) this.#front = `;${code}`;
    else if ((code >= 40 && code < 48) || (code >= 100 && code < 108)) this.#ground = `;${code}`;
  }
}
