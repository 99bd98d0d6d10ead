package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
)

const (
	defaultSize = 100
	maxSize     = ledger.MaxPage
	maxPage     = 1 << 31
)

// paging is which part of a list is wanted. Page 0 is page 1 by another name.
type paging struct{ page, size int }

func (p paging) offset() int { return max(p.page-1, 0) * p.size }

// pageArgs reads page and size. Odd values mean what they always meant to the
// clients of this API: a page that is no number is 0, a negative or huge size
// is the largest there is.
func pageArgs(q url.Values) (paging, error) {
	p := paging{page: 1, size: defaultSize}
	if v := strings.TrimSpace(q.Get("page")); v != "" {
		p.page = number(v)
	}
	if v := strings.TrimSpace(q.Get("size")); v != "" {
		p.size = number(v)
	}
	switch {
	case p.page < 0 || p.page > maxPage:
		return p, fault.New(fault.Invalid, "page must be between 0 and %d", maxPage).Because("list")
	case p.size == 0:
		return p, fault.New(fault.Invalid, "size must be a number other than 0").Because("list")
	case p.size < 0 || p.size > maxSize:
		p.size = maxSize
	}
	return p, nil
}

// number reads what does not overflow as it is, what does as the nearest, and
// everything else as 0.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil && (n > -1<<62 && n < 1<<62) {
		return 0
	}
	return n
}

// orderArgs reads orderBy: a comma list of "<field> [asc|desc]".
func orderArgs(columns map[string]string, text string) ([]ledger.Order, error) {
	if strings.TrimSpace(text) == "" {
		return []ledger.Order{{Column: "name"}}, nil
	}
	var order []ledger.Order
	for part := range strings.SplitSeq(text, ",") {
		words := strings.Fields(part)
		if len(words) == 0 || len(words) > 2 {
			return nil, fault.New(fault.Invalid, "orderBy is a comma list of '<field> [asc|desc]', not %.64q", part).Because("list")
		}
		column, ok := columns[words[0]]
		if !ok {
			return nil, fault.New(fault.Invalid, "unable to order by %.64q", words[0]).Because("list")
		}
		o := ledger.Order{Column: column}
		if len(words) == 2 {
			switch strings.ToLower(words[1]) {
			case "asc":
			case "desc":
				o.Desc = true
			default:
				return nil, fault.New(fault.Invalid, "the direction of an order is asc or desc, not %.64q", words[1]).Because("list")
			}
		}
		// Only the first mention of a column sorts anything.
		if !slices.ContainsFunc(order, func(x ledger.Order) bool { return x.Column == column }) {
			order = append(order, o)
		}
	}
	return order, nil
}

func (s *server) compatList(w http.ResponseWriter, r *http.Request, p *compatPath) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		s.fail(w, r, fault.New(fault.Invalid, "the query string is malformed").Because("list"))
		return
	}
	args, err := pageArgs(query)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	q := instance.Query{Offering: p.off.Metadata.Name, Page: max(args.page, 1), Size: args.size}
	if q.Order, err = orderArgs(p.off.Spec.API.Order, query.Get("orderBy")); err != nil {
		s.fail(w, r, err)
		return
	}
	if q.Where, err = parseSearch(query.Get("search"), p.off.Spec.API.Search, instance.Kind); err != nil {
		s.fail(w, r, err)
		return
	}
	objects, total, err := s.Instances.List(r.Context(), q)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	v := newView(p.off)
	buf := make([]byte, 0, 128+len(objects)*640)
	buf = append(buf, `{"kind":`...)
	buf = appendJSON(buf, v.list)
	buf = append(buf, `,"page":`...)
	buf = strconv.AppendInt(buf, int64(args.page), 10)
	buf = append(buf, `,"size":`...)
	buf = strconv.AppendInt(buf, min(int64(args.size), total), 10)
	buf = append(buf, `,"total":`...)
	buf = strconv.AppendInt(buf, total, 10)
	buf = append(buf, `,"items":[`...)
	for i := range objects {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = v.append(buf, &objects[i])
	}
	writeRaw(w, http.StatusOK, append(buf, "]}\n"...))
}
