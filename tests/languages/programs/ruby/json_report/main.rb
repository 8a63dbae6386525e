# frozen_string_literal: true

# JSON on stdin, grouped with Struct and Enumerable, JSON out.
require 'json'
require 'set'

Order = Struct.new(:customer, :item, :price, :count, keyword_init: true) do
  def total = price * count
end

orders = JSON.parse($stdin.read, symbolize_names: true).map { |fields| Order.new(**fields) }
report = orders.group_by(&:customer).map do |customer, list|
  {
    customer: customer,
    total: list.sum(&:total).round(2),
    items: list.map(&:item).to_set.sort,
    best: list.max_by(&:total).to_h.slice(:item, :count)
  }
end
puts JSON.pretty_generate(report.sort_by { |entry| -entry[:total] })
cheap, dear = orders.partition { |order| order.price < 5 }
puts "#{cheap.size} cheap, #{dear.size} dear, #{orders.each_cons(2).count { |a, b| a.price < b.price }} rises"
begin
  JSON.parse('{"open": ')
rescue JSON::ParserError => e
  puts "not JSON: #{e.class}"
end
