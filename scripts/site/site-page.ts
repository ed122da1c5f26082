import { Marked } from 'marked';

/** A page of the site. */
export interface SitePage {
  /** From the root of the project, such as `docs/install.md`. */
  readonly path: string;
  readonly markdown: string;
}

/** A part of a page, as the search finds it. */
export interface SitePart {
  readonly page: string;
  readonly title: string;
  /** Of its heading: 2 for `##`. */
  readonly depth: number;
  readonly address: string;
  readonly text: string;
}

/** Returns the HTML of Markdown, with the anchors that GitHub gives to headings. */
export function contentOf(markdown: string, linkOf: (address: string) => string): string {
  const anchors = anchorsInOrder();
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text }) {
        const anchor = anchors(text);
        return `<h${depth} id="${anchor}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
      },
      link({ href, tokens }) {
        const text = this.parser.parseInline(tokens);
        const address = linkOf(href);
        return address === '' ? text : `<a href="${escaped(address)}">${text}</a>`;
      },
      code({ text, lang }) {
        return `<pre tabindex="0"><code${lang ? ` data-language="${escaped(lang)}"` : ''}>${escaped(text)}\n</code></pre>\n`;
      },
      image({ href, text }) {
        return `<img src="${escaped(linkOf(href))}" alt="${escaped(text)}">`;
      },
      table({ header, rows }) {
        const cells = (row: typeof header, tag: string) =>
          row.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`).join('');
        const body = rows.map(row => `<tr>${cells(row, 'td')}</tr>`).join('\n');
        return `<div class="wide" tabindex="0"><table><thead><tr>${cells(header, 'th')}</tr></thead><tbody>${body}</tbody></table></div>\n`;
      },
    },
  });
  return marked.parse(markdown, { async: false });
}

/** Returns the parts of a page: each begins with a heading. */
export function partsOf({ path, markdown }: SitePage, address: string): SitePart[] {
  const anchors = anchorsInOrder();
  const titleOf = (line: string) => plain(line.replace(/^#+ /, ''));
  const blocks = markdown.replaceAll(/^```.*?^```$/gms, block => block.replaceAll(/^#/gm, ' #'));
  const page = titleOf(/^# .+$/m.exec(blocks)?.[0] ?? path);
  return blocks.split(/^(?=#{1,6} )/m).flatMap(part => {
    const [first = '', ...rest] = part.split('\n');
    if (!/^#+ /.test(first)) return [];
    const anchor = anchors(first.replace(/^#+ /, ''));
    const text = plain(rest.join(' '));
    const depth = first.indexOf(' ');
    return [{ page, title: titleOf(first), depth, address: `${address}#${anchor}`, text }];
  });
}

/** Returns a function that returns the anchor of each heading of a page, by the rules of GitHub. */
function anchorsInOrder(): (heading: string) => string {
  const taken = new Set<string>();
  return heading => {
    const words = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
    const anchor = words.replaceAll(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-');
    let name = anchor;
    for (let count = 1; taken.has(name); count += 1) name = `${anchor}-${count}`;
    taken.add(name);
    return name;
  };
}

function plain(markdown: string): string {
  return markdown
    .replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/[`*|]|-{3,}/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim();
}

/** Returns text as it is written in HTML. */
export function escaped(text: string): string {
  return text.replace(/[<>&"]/g, character => `&#${character.charCodeAt(0)};`);
}
